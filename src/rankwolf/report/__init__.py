"""Pages to look at: one HTML file each, with everything inside, no server and no request to anywhere.

``page`` holds the frame that all pages share, ``figures`` the charts and pictures, ``video_page`` what
``rankwolf separate`` shows.
"""
