"""Commands that check: the doctor, traces, reports and files of other systems."""
