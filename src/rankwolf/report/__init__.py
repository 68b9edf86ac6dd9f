"""Pages to look at: one HTML file each, with everything inside, no server and no request to anywhere.

``page`` holds the frame that all pages share, ``figures`` the charts and pictures, ``solving`` the facts and charts of
any decomposition, ``video_page`` and ``events`` the page of ``rankwolf separate``, ``matrix_page`` and ``outliers``
that of ``rankwolf decompose``. Nothing here solves, reads an input or writes a file: results go in, and a page comes
out as text.
"""
