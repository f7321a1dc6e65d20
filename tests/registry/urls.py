"""The registry's addresses alone, as the platform mounts them."""

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularJSONAPIView

handler404 = "common.errors.handler404"
urlpatterns = [
    path("admin/", admin.site.urls),
    path("v1/openapi.json", SpectacularJSONAPIView.as_view()),
    path("v1/", include("registry.urls")),
]
