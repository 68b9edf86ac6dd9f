"""Frames to matrix and back: reading, separating, writing and scoring of video, image folders and arrays of frames.

One file per noun: ``reading`` (where frames come from), ``picture`` (a frame as a row of the matrix), ``store`` (the
matrix, in memory or on disk), ``noise`` (weights from the data), ``mask`` (what moves), ``drawing`` (a separated frame
as pictures), ``writing`` (where they go), ``separation`` (all of it in order), ``summary`` (what it came to), ``model``
(frames that a saved result has not seen), ``scoring`` (against known masks).
"""
