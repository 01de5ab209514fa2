"""What commands print: colours, progress lines and logs."""
