"""Commands that examine: the doctor, traces, reports and files of other systems."""
