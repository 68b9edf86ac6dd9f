"""Tables of samples and features: the scikit-learn estimator, its batches, centre and scores, the scaling of columns.

The modules here ask a source (:mod:`rankwolf.data`) for rows and sums, and do not know where it keeps the matrix. Files
are read in :mod:`rankwolf.files`, and matrices are opened by :mod:`rankwolf.data.open`, not here.
"""
