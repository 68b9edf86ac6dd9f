"""Changed files, killed processes, full disks, signals, long use."""
