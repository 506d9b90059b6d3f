"""Pages about attention: report/ is one offline file, play/ is live."""
