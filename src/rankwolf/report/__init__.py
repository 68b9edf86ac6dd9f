"""Pages to look at: one HTML file each, with everything inside, no server and no request to anywhere.

``page`` holds the frame that all pages share, ``figures`` the charts and pictures, ``solving`` what is said of
any decomposition, ``video_page`` what ``rankwolf separate`` shows, ``matrix_page`` and ``outliers`` what
``rankwolf decompose`` shows. Nothing here solves, reads an input or writes a file: a page is text that is made of
results.
"""
