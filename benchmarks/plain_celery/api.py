"""POST /v1/reach: check, save, hand over on commit, answer 202."""

from django.db import transaction
from rest_framework import serializers, views
from rest_framework.response import Response

from .jobs import dispatch
from .models import Task


class TargetSerializer(serializers.Serializer):
    ability = serializers.CharField(max_length=128)


class CallbackSerializer(serializers.Serializer):
    type = serializers.ChoiceField(["http"])
    url = serializers.CharField(max_length=500)


class ReachSerializer(serializers.Serializer):
    correlationId = serializers.CharField(max_length=128)  # noqa: N815 - the name on the wire
    target = TargetSerializer()
    payload = serializers.DictField()
    callback = CallbackSerializer()


class ReachView(views.APIView):
    def post(self, request):
        serializer = ReachSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        with transaction.atomic():
            task = Task.objects.create(
                correlation_id=asked["correlationId"],
                ability=asked["target"]["ability"],
                payload=asked["payload"],
                callback_url=asked["callback"]["url"],
            )
            transaction.on_commit(lambda: dispatch.delay(str(task.id)))
        answer = {"code": 202, "taskId": str(task.id), "correlationId": task.correlation_id, "state": task.state}
        return Response(answer, status=202)


class HealthView(views.APIView):
    authentication_classes = ()
    permission_classes = ()

    def get(self, request):
        return Response({"status": "ok"})
