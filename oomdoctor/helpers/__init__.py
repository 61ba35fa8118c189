"""From the crash to the issue: drafts that follow a repository's own form, and the hooks around them."""
