"""What `piaa demo` shows: real photographs, what learning changes, and a page of them."""
