"""The authors' side: cases written by hand, expectations computed by the oracle."""
