"""Routes of the development inbox, included under `inbox/`."""

from __future__ import annotations

from django.urls import path

from mailer.inbox import views

app_name = "mailer"

urlpatterns = [
    path("", views.list_messages, name="inbox"),
    path("messages.json", views.list_as_json, name="messages"),
    path("script.js", views.script, name="script"),
    path("style.css", views.style_sheet, name="style"),
    path("previews/", views.list_previews, name="previews"),
    path("previews/<slug:key>", views.show_preview, name="preview"),
    path("previews/<slug:key>/body", views.show_preview_body, name="preview-body"),
    path("<slug:inbox_id>", views.show_message, name="message"),
    path("<slug:inbox_id>/body", views.show_body, name="body"),
]
