"""The forms of the first account, of invitations and of the language model."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.utils.translation import gettext_lazy

from memories.models import ModelServer, User
from memories.rules.summariser import MAX_MODEL_NAME


class ModelServerForm(forms.Form):
    """The language model of the installation. The saved key is never shown."""

    model = forms.CharField(
        label=gettext_lazy("Model"),
        required=False,
        max_length=MAX_MODEL_NAME,
        help_text=gettext_lazy(
            "The name of the model on its server, such as gpt-4.1-mini. Empty: memories are messages "
            "chosen word for word (highlights)."
        ),
    )
    base_url = forms.URLField(
        label=gettext_lazy("Address"),
        required=False,
        max_length=300,
        assume_scheme="https",
        help_text=gettext_lazy(
            "The address of an OpenAI-compatible server, including /v1. Empty: OpenAI."
        ),
    )
    api_key = forms.CharField(
        label=gettext_lazy("API key"),
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, data: Any = None, *, server: ModelServer) -> None:
        super().__init__(data, initial={"model": server.model, "base_url": server.base_url})
        self.server = server
        self.fields["api_key"].help_text = (
            gettext_lazy("A key is saved, encrypted. Empty: it stays. A new address removes it.")
            if server.encrypted_key
            else gettext_lazy("It is stored encrypted.")
        )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        address = cleaned.get("base_url", "")
        keeps_key = self.server.encrypted_key and address == self.server.base_url
        if cleaned.get("model") and not (address or cleaned.get("api_key") or keeps_key):
            self.add_error(
                "api_key", gettext_lazy("Enter a key, or the address of your own server.")
            )
        return cleaned

    def save(self, *, by: User) -> None:
        self.server.change(**self.cleaned_data, by=by)


class NewAccountForm(UserCreationForm):  # type: ignore[type-arg]
    """The name and password that a person chooses for a new account."""

    class Meta:
        model = User
        fields = ("username",)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.fields["username"].help_text = ""
        self.fields["password1"].help_text = gettext_lazy(
            "At least 8 characters, not only digits, and not a common word."
        )
        self.fields["password2"].label = gettext_lazy("Repeat the password")
        self.fields["password2"].help_text = ""
