"""Runs, judged and recorded: the parts that every experiment shares."""
