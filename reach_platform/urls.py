"""Every address of the web server: a package's `urls` has `v1` or `urlpatterns` for the API, `root` for pages."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from reach_platform.guides import guide
from reach_platform.openapi import openapi
from registry.admin.people import OwnPassword
from registry.api.agents import Health
from registry.api.catalog import Catalog
from routing.breakers_of import breakers_of
from routing.mapping_page import page as mapping_page
from routing.offers import offers

# Addresses are tried in order: what is asked for most, first.
PACKAGES = ("routing", "registry", "callbacks", "insight")


def addresses(part: str) -> list[Any]:
    modules = [import_module(f"{package}.urls") for package in PACKAGES if find_spec(f"{package}.urls")]
    return [address for module in modules for address in getattr(module, part, [])]


def api_addresses() -> list[Any]:
    return [*addresses("v1"), *addresses("urlpatterns")]


urlpatterns = [
    path("v1/openapi.json", openapi, name="openapi"),
    path("v1/", include(api_addresses())),
    path("v1/catalog", Catalog.as_view(offers=offers), name="catalog"),
    path("v1/agents/<agent_id:agent_id>/health", Health.as_view(breakers=breakers_of), name="agent-health"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="openapi"), name="docs"),
    path("docs/<slug:name>", guide, name="guide"),
    path("i18n/", include("django.conf.urls.i18n")),
    path("admin/registry/agent/<str:object_id>/mapping/", admin.site.admin_view(mapping_page), name="agent-mapping"),
    path("admin/password_change/", admin.site.admin_view(OwnPassword.as_view(), cacheable=True)),
    path("admin/", admin.site.urls),
    *addresses("root"),
    path("", RedirectView.as_view(url="/console/")),
]

handler400 = "reach_platform.error_answers.bad_request"
handler403 = "reach_platform.error_answers.forbidden"
handler404 = "reach_platform.error_answers.not_found"
handler500 = "reach_platform.error_answers.server_error"
