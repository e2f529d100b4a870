"""Console pages of users: list, search, details, actions, creation. Django imports `admin` to register them."""

from accounts.admin.user_admin import UserAdmin

__all__ = ["UserAdmin"]
