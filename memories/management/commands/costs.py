"""Show what models cost, and set prices and budgets."""

import argparse
import calendar
import re
from datetime import UTC, date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from memories.management import arguments
from memories.management.job_output import budget_row, dollars
from memories.models import Budget, Price, Reader, Workspace
from memories.pipeline.costs.usage import MONEY, NAMES, By, Row, Sums, budget_uses, costs, total
from memories.rules.ingest.invisible import mark_invisible
from memories.rules.summariser import MAX_MODEL_NAME

NONE = "none"
ALL_WORKSPACES = "the workspace; default: all together"


class Command(BaseCommand):
    help = (
        "Show the tokens, requests and dollars of this month or of other days (UTC), and the used part "
        "of each budget. The actions set prices and budgets."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        arguments.add_workspace(parser, ALL_WORKSPACES)
        arguments.add_reader(parser)
        arguments.add_json(parser)
        period = parser.add_mutually_exclusive_group()
        period.add_argument("--month", metavar="YYYY-MM", help="a month; default: the current one")
        period.add_argument(
            "--days", type=int, metavar="N", help="the last N days, including today"
        )
        parser.add_argument(
            "--by", choices=[*By], default=By.DAY, help="the unit of a row; default: %(default)s"
        )
        actions = parser.add_subparsers(dest="action", metavar="ACTION")

        # SUPPRESS keeps the values of options before the action.
        keep = {"argument_default": argparse.SUPPRESS}
        price = arguments.add_action(actions, "price", "Set the price of a model.", **keep)
        price.add_argument("model", help="the name in MEMORYHUB_MODEL, also for dated releases")
        price.add_argument("in", metavar="IN", help="dollars per million input tokens, or `none`")
        price.add_argument(
            "out", metavar="OUT", nargs="?", default=NONE, help="dollars per million output tokens"
        )
        budget = arguments.add_action(
            actions, "budget", "Set the budget of a day or a month (UTC).", **keep
        )
        arguments.add_workspace(budget, ALL_WORKSPACES)
        budget.add_argument(
            "period", choices=[*Budget.Period.values], help="the period of the budget"
        )
        budget.add_argument("--tokens", metavar="N", help="a limit in tokens, or `none`")
        budget.add_argument("--money", metavar="D", help="a limit in dollars, or `none`")
        for parser_of_action in (price, budget):
            arguments.add_reader(parser_of_action)

    @arguments.needs_database()
    def handle(self, *args: Any, **options: Any) -> None:
        reader = arguments.reader_from(options)
        self.by = arguments.user_of(reader)
        workspace = arguments.workspace_from(options) if options.get("workspace") else None
        if options["action"] and self.by and not self.by.is_superuser:
            raise CommandError("Only operators set prices and budgets.")
        try:
            if options["action"] == "price":
                self._price(options)
            elif options["action"] == "budget":
                self._budget(workspace, options)
            else:
                self._report(reader, workspace, options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error

    # -- prices and budgets

    def _price(self, options: dict[str, Any]) -> None:
        model = options["model"]
        if options["in"] == NONE:
            price = Price.objects.filter(model=model).first()
            if price is None:
                raise CommandError(f"There is no price of {model!r}.")
            price.remove(by=self.by)
            self.stdout.write(f"{model}: no price; its tokens are counted as unpriced.")
            return
        if len(model) > MAX_MODEL_NAME:
            raise CommandError(f"A model's name has at most {MAX_MODEL_NAME} characters.")
        amounts = (_amount(options[name], name.upper()) for name in ("in", "out"))
        price = Price.objects.change(model, *amounts, by=self.by)
        self.stdout.write("{}: ${} in, ${} out per million tokens.".format(model, *price.recorded))

    def _budget(self, workspace: Workspace | None, options: dict[str, Any]) -> None:
        limits: dict[str, Any] = {}
        if "tokens" in options:
            limits["tokens"] = _tokens(options["tokens"])
        if "money" in options:
            money = options["money"]
            limits["money"] = None if money == NONE else _amount(money, "--money")
        if not limits:
            raise CommandError("Give --tokens, --money, or both.")
        budget = Budget.objects.change(workspace, options["period"], by=self.by, **limits)
        whose = workspace.slug if workspace else "the whole installation"
        limit = _limits(budget.tokens, dollars(budget.micros)) if budget else "no budget"
        self.stdout.write(f"A {options['period']} of {whose}: {limit}.")

    # -- sums

    def _report(self, reader: Reader, workspace: Workspace | None, options: dict[str, Any]) -> None:
        now = timezone.now()
        first, last = _days(options, now.astimezone(UTC).date())
        by = By(options["by"])
        rows = costs(reader, workspace, first, last, by)
        budgets = [budget_row(use) for use in budget_uses(reader, workspace, now)]
        whole = total(row.sums for row in rows)
        if options["json"]:
            report = {
                "workspace": workspace.slug if workspace else None,
                "from": first.isoformat(),
                "to": last.isoformat(),
                "by": by,
                "rows": [{"key": row.key, "name": row.name, **_sums(row.sums)} for row in rows],
                "total": _sums(whole),
                "budgets": budgets,
                "prices": [_price(price) for price in Price.objects.all()],
            }
            self.stdout.write(arguments.document(report))
            return
        self.stdout.write(f"{first} to {last} (UTC)")
        width = max((len(row.name) for row in rows), default=0)
        for row in [*rows, Row("", "total", whole)]:
            self.stdout.write(f"{mark_invisible(row.name):<{max(width, 5)}}  {_summary(row.sums)}")
        for budget in budgets:
            used = _limits(budget["tokens_used"], budget["dollars_used"])
            limit = _limits(budget["tokens"], budget["dollars"])
            whose = budget["workspace"] or "all"
            self.stdout.write(f"budget of {whose}, {budget['period']}: {limit}; used {used}")


def _days(options: dict[str, Any], today: date) -> tuple[date, date]:
    if options["days"] is not None:
        if not 1 <= options["days"] <= 3660:
            raise CommandError("--days must be a number from 1 to 3660.")
        return today - timedelta(days=options["days"] - 1), today
    if not options["month"]:
        return today.replace(day=1), today
    match = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", options["month"])
    if match is None or match[1] == "0000":
        raise CommandError(f"--month must be YYYY-MM, not {options['month']!r}.")
    year, month = int(match[1]), int(match[2])
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _amount(text: str, name: str) -> Decimal:
    """Parse dollars. The model checks the number of decimal places."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise CommandError(f"{name} must be an amount such as 0.25, not {text!r}.")
    return amount


def _tokens(text: str) -> int | None:
    if text == NONE:
        return None
    digits = text.replace("_", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit()):
        raise CommandError(f"--tokens must be a whole number or `{NONE}`, not {text!r}.")
    return int(digits[:20])


def _sums(sums: Sums) -> dict[str, Any]:
    """Return the sums, with money in dollars. None: no price."""
    amounts = {name: getattr(sums, name) for name in NAMES}
    money = {name.replace("micros", "dollars"): dollars(amounts.pop(name)) for name in MONEY}
    return amounts | money


def _price(price: Price) -> dict[str, str]:
    input_price, output_price = price.recorded
    return {"model": price.model, "in": input_price, "out": output_price}


def _limits(tokens: int | None, money: str | None) -> str:
    parts = [f"{tokens:,} tokens"] if tokens is not None else []
    return ", ".join([*parts, *([f"${money}"] if money is not None else [])])


def _summary(sums: Sums) -> str:
    spent = dollars(sums.micros)
    parts = [
        f"{sums.tokens_in:,} tokens in, {sums.tokens_out:,} out",
        f"{sums.requests:,} requests",
        *([f"${spent}"] if spent is not None else []),
        *([f"{sums.unpriced_tokens:,} unpriced tokens"] if sums.unpriced_tokens else []),
    ]
    for name, tokens, micros in (
        ("reserved", sums.reserved_tokens, sums.reserved_micros),
        ("lost", sums.lost_tokens, sums.lost_micros),
    ):
        if tokens:
            parts.append(
                f"{name} up to {tokens:,} tokens"
                + (f", ${dollars(micros)}" if micros is not None else " without a price")
            )
    return "; ".join(parts)
