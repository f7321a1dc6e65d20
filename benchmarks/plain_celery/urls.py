from django.urls import path

from .api import HealthView, ReachView

urlpatterns = [path("v1/reach", ReachView.as_view()), path("healthz", HealthView.as_view())]
