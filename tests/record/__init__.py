"""The specification's record of each action, bundles of one, and their replay."""
