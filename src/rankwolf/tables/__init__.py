"""Tables of samples and features: the scikit-learn estimator, its batches, centre and scores, the scaling of columns.

What is here asks a source (:mod:`rankwolf.data`) and never cares where that reads. Files are read in
:mod:`rankwolf.files`, and matrices are opened by :mod:`rankwolf.data.open`, not here.
"""
