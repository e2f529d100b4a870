"""Authorization requests and the consent of users."""
