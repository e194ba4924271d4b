import type { Environment } from "@marcbachmann/cel-js";
import {
  dns1035LabelFaults,
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  labelValueFaults,
  qualifiedNameFaults,
} from "../../values/names.ts";
import {
  addQuantities,
  compareQuantities,
  isQuantity,
  parseQuantity,
  type Quantity,
  subtractQuantities,
} from "../../values/quantity.ts";
import { hasFormat } from "../../schema/formats.ts";
import { celEngine } from "../engine.ts";
import { celEquals } from "../object-types.ts";
import { CelError } from "../cel-error.ts";

/** Registers Kubernetes' CEL functions on lists, sets, quantities and named formats. */
export function registerKubernetesLibrary(environment: Environment): void {
  registerLists(environment);
  registerSets(environment);
  registerQuantities(environment);
  registerFormats(environment);
}

function compareValues(a: unknown, b: unknown): number {
  const left = a instanceof Object ? a.valueOf() : a;
  const right = b instanceof Object ? b.valueOf() : b;
  if (left === right) return 0;
  return (left as number) < (right as number) ? -1 : 1;
}

function extreme(list: readonly unknown[], sign: 1 | -1): unknown {
  if (list.length === 0) throw new CelError("InvalidArgument", `${sign < 0 ? "min" : "max"} called on empty list`);
  return list.reduce((best, item) => (compareValues(item, best) * sign > 0 ? item : best));
}

function registerLists(environment: Environment): void {
  environment
    .registerFunction("list.isSorted(): bool", (list: unknown[]) =>
      list.every((item, index) => index === 0 || compareValues(list[index - 1], item) <= 0),
    )
    .registerFunction("list.sum(): dyn", (list: (number | bigint)[]) =>
      list.every((item) => typeof item === "bigint")
        ? list.reduce((sum: bigint, item) => sum + item, 0n)
        : list.reduce((sum: number, item) => sum + Number(item), 0),
    )
    .registerFunction("list.min(): dyn", (list: unknown[]) => extreme(list, -1))
    .registerFunction("list.max(): dyn", (list: unknown[]) => extreme(list, 1))
    .registerFunction("list.indexOf(dyn): int", (list: unknown[], wanted: unknown) =>
      BigInt(list.findIndex((item) => celEquals(item, wanted))),
    )
    .registerFunction("list.lastIndexOf(dyn): int", (list: unknown[], wanted: unknown) =>
      BigInt(list.findLastIndex((item) => celEquals(item, wanted))),
    );
}

class SetFunctions {}

function registerSets(environment: Environment): void {
  const includes = (list: readonly unknown[], wanted: unknown): boolean => list.some((item) => celEquals(item, wanted));
  const contains = (_: unknown, all: unknown[], some: unknown[]): boolean => some.every((item) => includes(all, item));
  environment
    .registerType("SetFunctions", SetFunctions)
    .registerConstant("sets", "SetFunctions", new SetFunctions())
    .registerFunction("SetFunctions.contains(list, list): bool", contains)
    .registerFunction(
      "SetFunctions.equivalent(list, list): bool",
      (_: unknown, a: unknown[], b: unknown[]) => contains(_, a, b) && contains(_, b, a),
    )
    .registerFunction("SetFunctions.intersects(list, list): bool", (_: unknown, a: unknown[], b: unknown[]) =>
      a.some((item) => includes(b, item)),
    );
}

class CelQuantity {
  readonly quantity: Quantity;

  constructor(quantity: Quantity) {
    this.quantity = quantity;
  }

  valueOf(): bigint {
    return this.quantity.nanos;
  }
}

const unit = 1_000_000_000n;

function registerQuantities(environment: Environment): void {
  const type = "kubernetes.Quantity";
  const ofInt = (value: bigint): Quantity => ({ nanos: value * unit, format: "DecimalSI" });
  const compare = (a: CelQuantity, b: CelQuantity): number => compareQuantities(a.quantity, b.quantity);
  environment
    .registerType(type, CelQuantity)
    .registerFunction(`quantity(string): ${type}`, (text: string) => new CelQuantity(parseQuantity(text)))
    .registerFunction("isQuantity(string): bool", (text: string) => isQuantity(text))
    .registerFunction(`${type}.sign(): int`, ({ quantity: { nanos } }: CelQuantity) =>
      nanos === 0n ? 0n : nanos < 0n ? -1n : 1n,
    )
    .registerFunction(`${type}.isInteger(): bool`, ({ quantity }: CelQuantity) => quantity.nanos % unit === 0n)
    .registerFunction(`${type}.asInteger(): int`, ({ quantity }: CelQuantity) => {
      if (quantity.nanos % unit !== 0n) throw new CelError("InvalidArgument", "cannot convert value to integer");
      return quantity.nanos / unit;
    })
    .registerFunction(`${type}.asApproximateFloat(): double`, ({ quantity }: CelQuantity) => Number(quantity.nanos) / 1e9)
    .registerFunction(`${type}.compareTo(${type}): int`, (a: CelQuantity, b: CelQuantity) => BigInt(compare(a, b)))
    .registerFunction(`${type}.isLessThan(${type}): bool`, (a: CelQuantity, b: CelQuantity) => compare(a, b) < 0)
    .registerFunction(`${type}.isGreaterThan(${type}): bool`, (a: CelQuantity, b: CelQuantity) => compare(a, b) > 0)
    .registerOperator(`${type} == ${type}`, (a: CelQuantity, b: CelQuantity) => compare(a, b) === 0);
  for (const [name, combine] of [
    ["add", addQuantities],
    ["sub", subtractQuantities],
  ] as const) {
    environment
      .registerFunction(
        `${type}.${name}(${type}): ${type}`,
        (a: CelQuantity, b: CelQuantity) => new CelQuantity(combine(a.quantity, b.quantity)),
      )
      .registerFunction(
        `${type}.${name}(int): ${type}`,
        (a: CelQuantity, b: bigint) => new CelQuantity(combine(a.quantity, ofInt(b))),
      );
  }
}

class NamedFormat {
  readonly faults: (text: string) => readonly string[];

  constructor(faults: (text: string) => readonly string[]) {
    this.faults = faults;
  }
}

class FormatFunctions {}

const byFormat =
  (format: string) =>
  (text: string): readonly string[] =>
    hasFormat(format, text) ? [] : [`invalid ${format}`];

const namedFormats: Readonly<Record<string, (text: string) => readonly string[]>> = {
  dns1123Label: dns1123LabelFaults,
  dns1123Subdomain: dns1123SubdomainFaults,
  dns1035Label: dns1035LabelFaults,
  qualifiedName: qualifiedNameFaults,
  labelValue: labelValueFaults,
  dns1123LabelPrefix: (text) => dns1123LabelFaults(text.replace(/-$/, "")),
  dns1123SubdomainPrefix: (text) => dns1123SubdomainFaults(text.replace(/-$/, "")),
  dns1035LabelPrefix: (text) => dns1035LabelFaults(text.replace(/-$/, "")),
  uri: byFormat("uri"),
  uuid: byFormat("uuid"),
  byte: byFormat("byte"),
  date: byFormat("date"),
  datetime: byFormat("date-time"),
};

function registerFormats(environment: Environment): void {
  const { Optional } = celEngine();
  const type = "kubernetes.NamedFormat";
  environment
    .registerType(type, NamedFormat)
    .registerType("FormatFunctions", FormatFunctions)
    .registerConstant("format", "FormatFunctions", new FormatFunctions())
    .registerFunction(`FormatFunctions.named(string): optional<${type}>`, (_: unknown, name: string) => {
      const faults = Object.hasOwn(namedFormats, name) ? namedFormats[name] : undefined;
      return faults === undefined ? Optional.none() : Optional.of(new NamedFormat(faults));
    })
    .registerFunction(`${type}.validate(string): optional<list<string>>`, ({ faults }: NamedFormat, text: string) => {
      const found = faults(text);
      return found.length === 0 ? Optional.none() : Optional.of([...found]);
    });
  for (const [name, faults] of Object.entries(namedFormats)) {
    const format = new NamedFormat(faults);
    environment.registerFunction(`FormatFunctions.${name}(): ${type}`, () => format);
  }
}
