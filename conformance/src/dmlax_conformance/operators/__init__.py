"""The meaning, rules, tables and cases of each operator."""
