"""The model of the installation, when the pages set it and not the environment."""

from django.conf import settings
from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from memories.models.access.audit import AuditEvent
from memories.models.access.users import User
from memories.rules.safety import encryption
from memories.rules.summariser import MAX_MODEL_NAME


class ModelServerQuerySet(models.QuerySet["ModelServer"]):
    def in_use(self) -> "ModelServer":
        """Return the model of the environment if it names one, else the saved one, else none."""
        if settings.MEMORYHUB_MODEL:
            server = ModelServer(model=settings.MEMORYHUB_MODEL, base_url=settings.OPENAI_BASE_URL)
            server.is_environment = True
            return server
        return self.first() or ModelServer()


class ModelServer(models.Model):
    """The name, the address and the encrypted key of a model. There is at most one row.

    ``key_end`` contains the last four characters of the key, and all that pages show of it.
    """

    is_environment = False

    model = models.CharField(_("model"), max_length=MAX_MODEL_NAME, blank=True)
    base_url = models.URLField(_("address"), max_length=300, blank=True)
    encrypted_key = models.TextField(blank=True, editable=False)
    key_end = models.CharField(_("key ends in"), max_length=4, blank=True)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = ModelServerQuerySet.as_manager()

    class Meta:
        verbose_name = _("model server")
        verbose_name_plural = _("model servers")

    def __str__(self) -> str:
        return self.model

    @property
    def api_key(self) -> str:
        """The key, "" for none or if none of MEMORYHUB_KEYS fits: the server then refuses calls."""
        if self.is_environment:
            return str(settings.OPENAI_API_KEY)
        try:
            keys = settings.MEMORYHUB_KEYS
            return encryption.decrypt(self.encrypted_key, keys) if self.encrypted_key else ""
        except encryption.DecryptionError:
            return ""

    @transaction.atomic
    def change(self, *, model: str, base_url: str, api_key: str, by: User) -> None:
        """Save the model. Without ``api_key`` the key stays, unless the address changes.

        A key is never sent to another address than the one that it was saved for.
        """
        if api_key or base_url != self.base_url or not model:
            keys = settings.MEMORYHUB_KEYS
            self.encrypted_key = encryption.encrypt(api_key, keys) if api_key else ""
            self.key_end = api_key[-4:] if len(api_key) >= 12 else ""
        self.model, self.base_url = model, base_url
        self.save()
        AuditEvent.objects.record("model", by=by, subject=model, base_url=base_url)

    def reencrypt(self) -> bool:
        """Encrypt the key with the first of MEMORYHUB_KEYS. Return False if it is so already."""
        reencrypted = encryption.reencrypt(self.encrypted_key, settings.MEMORYHUB_KEYS)
        unchanged = ModelServer.objects.filter(pk=self.pk, encrypted_key=self.encrypted_key)
        return reencrypted != self.encrypted_key and bool(
            unchanged.update(encrypted_key=reencrypted)
        )
