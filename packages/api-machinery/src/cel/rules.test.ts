import { describe, expect, test } from "vitest";
import type { Schema, ValidationRule } from "../schema/schema.ts";
import { validateStructural } from "../schema/structural.ts";
import { validate } from "../schema/validate.ts";
import { createRuleEvaluator } from "./rule-evaluator.ts";

const text: Schema = { type: "string" };
const integer: Schema = { type: "integer" };

const spec: Schema = {
  type: "object",
  properties: {
    replicas: integer,
    minReplicas: integer,
    maxReplicas: integer,
    ratio: { type: "number" },
    name: text,
    namespace: text,
    "x-dash.dot": text,
    port: { "x-kubernetes-int-or-string": true },
    tags: { type: "array", items: text },
    numbers: { type: "array", items: integer },
    labels: { type: "object", additionalProperties: text },
    memory: text,
    address: text,
    network: text,
    endpoint: text,
    timeout: { type: "string", format: "duration" },
    start: { type: "string", format: "date-time" },
    nested: { type: "object", properties: { a: integer, b: integer } },
    items: {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      items: { type: "object", required: ["name"], properties: { name: text, weight: integer } },
    },
    free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  },
};

function withRules(schema: Schema, ...rules: (string | ValidationRule)[]): Schema {
  return {
    ...schema,
    "x-kubernetes-validations": rules.map((rule) => (typeof rule === "string" ? { rule } : rule)),
  };
}

function causesOf(schema: Schema, value: unknown, oldValue?: unknown) {
  return validate(schema, value, "spec", { rules: createRuleEvaluator(), ...(oldValue === undefined ? {} : { oldValue }) });
}

const value = {
  replicas: 3,
  minReplicas: 1,
  maxReplicas: 5,
  ratio: 1,
  name: "web-1",
  namespace: "ns",
  "x-dash.dot": "v",
  port: 80,
  tags: ["a", "b", "c"],
  numbers: [1, 2, 3],
  labels: { app: "web", "a.b/c": "x" },
  memory: "1536Mi",
  address: "10.1.2.3",
  network: "10.0.0.0/8",
  endpoint: "https://example.com:8443/path?x=1",
  timeout: "1h30m",
  start: "2026-01-02T03:04:05Z",
  nested: { a: 1, b: 2 },
  items: [
    { name: "x", weight: 1 },
    { name: "y", weight: 2 },
  ],
};

describe("rules of real CRDs", () => {
  test.each([
    "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
    "has(self.name) && !has(self.free)",
    "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "matches(self.name, 'web')",
    "self.name.startsWith('web') && self.name.endsWith('1') && self.name.contains('-')",
    "self.__namespace__ == 'ns' && self.x__dash__dash__dot__dot == 'v'",
    "size(self.tags) == 3 && self.tags.size() == 3 && size(self.labels) == 2",
    "self.tags.all(t, t.size() == 1) && self.tags.exists(t, t == 'b') && self.tags.exists_one(t, t == 'b')",
    "self.tags.map(t, t + 'x') == ['ax', 'bx', 'cx'] && self.tags.filter(t, t != 'b').size() == 2",
    "'a' in self.tags && 'app' in self.labels",
    "self.labels.all(k, self.labels[k].size() > 0)",
    "self.labels['a.b/c'] == 'x'",
    "self.items.all(i, self.items.exists_one(j, j.name == i.name))",
    "self.items.map(i, i.weight).sum() == 3",
    "self.items.map(i, i.name).isSorted()",
    "self.numbers.min() == 1 && self.numbers.max() == 3 && self.numbers.indexOf(2) == 1",
    "type(self.port) == int ? self.port > 0 : self.port != ''",
    "self.ratio == 1.0 && double(self.replicas) / 2.0 == 1.5 && self.replicas / 2 == 1",
    "self.replicas % 2 == 1 && -self.replicas == -3 && int('7') + self.replicas == 10",
    "quantity(self.memory).isGreaterThan(quantity('1Gi')) && quantity(self.memory).isInteger()",
    "quantity('500m').add(quantity('500m')).compareTo(quantity('1')) == 0 && quantity('1k').sub(1).asInteger() == 999",
    "isQuantity('1Gi') && !isQuantity('x')",
    "ip(self.address).family() == 4 && !ip(self.address).isLoopback() && ip('::1').isLoopback()",
    "isIP(self.address) && !isIP('010.1.1.1') && ip.isCanonical('::1') && !ip.isCanonical('::0001')",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3-a+b').patch() == 3",
    "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1'))",
    "semver('1.0.0-rc.2').compareTo(semver('1.0.0-rc.10')) == -1 && semver('1.0.0-1').compareTo(semver('1.0.0-a')) == -1",
    "semver('1.0.0+a') == semver('1.0.0+b') && semver('v01.2', true) == semver('1.2.0') && semver('0', true).patch() == 0",
    "isSemver('1.2.3') && !isSemver('1.2') && !isSemver('01.2.3') && !isSemver('1.2.3-') && !isSemver('') && !isSemver('1.0-a', true)",
    "isSemver('1.2', true) && isSemver('v1.00.3-x', true) && !isSemver('x', true) && !isSemver('v1.2.3')",
    "cidr(self.network).containsIP(self.address) && cidr(self.network).containsCIDR('10.1.0.0/16')",
    "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').prefixLength() == 8 && isCIDR('::/0')",
    "url(self.endpoint).getScheme() == 'https' && url(self.endpoint).getHost() == 'example.com:8443'",
    "url(self.endpoint).getHostname() == 'example.com' && url(self.endpoint).getPort() == '8443'",
    "url(self.endpoint).getEscapedPath() == '/path' && url(self.endpoint).getQuery()['x'] == ['1'] && isURL('/x') && !isURL('x')",
    "sets.contains(self.tags, ['a']) && sets.intersects(self.tags, ['z', 'a']) && sets.equivalent([1, 2], [2, 1, 1])",
    "'%s has %d, %.2f'.format([self.name, self.replicas, 1.5]) == 'web-1 has 3, 1.50'",
    "!format.dns1123Label().validate(self.name).hasValue() && format.dns1123Label().validate('A_').hasValue()",
    "self.timeout > duration('1h') && self.timeout.getMinutes() == 90",
    "self.start < timestamp('2027-01-01T00:00:00Z') && self.start.getFullYear() == 2026",
    "self.start + duration('24h') > self.start",
    "self.name.split('-')[1] == '1' && ['a', 'b'].join('/') == 'a/b' && self.name.replace('web', 'x') == 'x-1'",
    "self.name.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && self.name.lowerAscii() == self.name",
    "self.name.charAt(0) == 'w' && 'abc'.reverse() == 'cba' && self.name.substring(0, 3) == 'web' && self.name.indexOf('-') == 3",
    "self.?nested.?a.orValue(0) == 1 && self.?free.hasValue() == false",
    "has(self.nested) ? self.nested.a < self.nested.b : true",
    "self.nested == self.nested && self.items[0] != self.items[1]",
    "cel.bind(total, self.numbers.sum(), total == 6)",
    "[[1, 2], [3]].exists(l, 3 in l)",
    "self.name in ['web-1', 'web-2'] ? true : false",
    "!(self.name == 'other') || self.replicas > 100",
    "self.items.exists(i, i.name == 'x' && (!has(i.weight) || i.weight >= 1))",
    "dyn(self.replicas) == 3 && string(self.replicas) == '3'",
    'self.name != "a \\"quoted\\" matches(" // matches(',
  ])("holds: %s", (rule) => {
    const schema = withRules(spec, { rule, message: "m" });
    expect(validateStructural({ type: "object", properties: { spec: schema } })).toEqual([]);
    expect(causesOf(schema, value)).toEqual([]);
  });

  test("names the field, the type and the rule that is false", () => {
    expect(causesOf(withRules(spec, "self.replicas > 3"), value)).toEqual([
      { reason: "FieldValueInvalid", field: "spec", message: "Invalid value: failed rule: self.replicas > 3" },
    ]);
  });

  test("builds the cause from message, messageExpression, reason and fieldPath", () => {
    const rule: ValidationRule = {
      rule: "self.replicas <= self.minReplicas",
      message: "too many",
      messageExpression: "'%d is more than %d'.format([self.replicas, self.minReplicas])",
      reason: "FieldValueForbidden",
      fieldPath: ".nested.a",
    };
    expect(causesOf(withRules(spec, rule), value)).toEqual([
      { reason: "FieldValueForbidden", field: "spec.nested.a", message: "Forbidden: 3 is more than 1" },
    ]);
    const failing = { ...rule, messageExpression: "self.free2", fieldPath: "", reason: "FieldValueRequired" };
    expect(causesOf(withRules(spec, failing), value)).toEqual([
      { reason: "FieldValueRequired", field: "spec", message: "Required value: too many" },
    ]);
  });

  test("rejects a value if a rule fails to evaluate, and says why", () => {
    const [cause] = causesOf(withRules(spec, "self.nested.a > 1"), {});
    expect(cause?.message).toMatch(/no such key: nested.* evaluating rule: self\.nested\.a > 1/);
  });
});

describe("transition rules", () => {
  const immutable = withRules(text, { rule: "self == oldSelf", message: "is immutable" });
  const schema: Schema = { type: "object", properties: { name: immutable, list: { type: "array", items: text } } };

  test("skip new values", () => {
    expect(causesOf(schema, { name: "a" })).toEqual([]);
    expect(causesOf(schema, { name: "a" }, {})).toEqual([]);
  });

  test("compare with the old value", () => {
    expect(causesOf(schema, { name: "a" }, { name: "a" })).toEqual([]);
    expect(causesOf(schema, { name: "b" }, { name: "a" })).toEqual([
      { reason: "FieldValueInvalid", field: "spec.name", message: 'Invalid value: "b": is immutable' },
    ]);
  });

  test("correlate items of a list of type map", () => {
    const items: Schema = {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      items: withRules({ type: "object", properties: { name: text, weight: integer } }, "self.weight >= oldSelf.weight"),
    };
    const before = [
      { name: "x", weight: 1 },
      { name: "y", weight: 5 },
    ];
    expect(causesOf(items, [{ name: "z", weight: 0 }, { name: "y", weight: 6 }, before[0]], before)).toEqual([]);
    expect(causesOf(items, [{ name: "y", weight: 4 }], before).map(({ field }) => field)).toEqual(["spec[0]"]);
  });

  test("also run on new values with optionalOldSelf", () => {
    const optional = withRules(text, {
      rule: "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'",
      optionalOldSelf: true,
    });
    expect(causesOf(optional, "first")).toEqual([]);
    expect(causesOf(optional, "other")).toHaveLength(1);
    expect(causesOf(optional, "first", "first")).toEqual([]);
    expect(causesOf(optional, "second", "first")).toHaveLength(1);
  });

  test("ratchets rules on unchanged values, but not transition rules", () => {
    const stricter: Schema = { type: "object", properties: { a: withRules(integer, "self > 5"), b: integer } };
    expect(causesOf(stricter, { a: 1, b: 2 }, { a: 1, b: 1 })).toEqual([]);
    expect(causesOf(stricter, { a: 2, b: 2 }, { a: 1, b: 1 })).toHaveLength(1);
    const growing = withRules(integer, "self > oldSelf");
    expect(causesOf(growing, 1, 1)).toHaveLength(1);
  });
});

describe("whole objects", () => {
  const schema = withRules({ type: "object", properties: { spec } }, "self.metadata.name.size() < 5 && self.kind == 'Widget'");
  const evaluate = (name: string) =>
    validate(schema, { apiVersion: "v1", kind: "Widget", metadata: { name, labels: {} } }, "", {
      rules: createRuleEvaluator(),
    });

  test("see kind and name and report faults of the whole object without a path", () => {
    expect(evaluate("abc")).toEqual([]);
    expect(evaluate("too-long")).toMatchObject([{ field: "<nil>" }]);
  });

  test("do not see the rest of the metadata", () => {
    const causes = validateStructural(withRules({ type: "object" }, "self.metadata.labels.size() == 0"));
    expect(causes).toHaveLength(1);
  });
});

describe("rules that a CRD must not have", () => {
  const faults = (rule: ValidationRule | string, schema: Schema = spec) =>
    validateStructural({ type: "object", properties: { spec: withRules(schema, rule) } }, "s").map(
      ({ reason, field }) => `${reason} ${field?.replace("s.properties[spec].x-kubernetes-validations[0].", "")}`,
    );

  test.each([
    ["", "FieldValueRequired rule"],
    ["self.replicas >", "FieldValueInvalid rule"],
    ["self.unknown == 1", "FieldValueInvalid rule"],
    ["self.replicas == 'a'", "FieldValueInvalid rule"],
    ["self.replicas", "FieldValueInvalid rule"],
    ["other == 1", "FieldValueInvalid rule"],
    ["nosuch(self.name)", "FieldValueInvalid rule"],
    ["self.free.x == 1", "FieldValueInvalid rule"],
    ["self.tags.all(t, t > 1)", "FieldValueInvalid rule"],
  ])("rejects %j: %s", (rule, fault) => {
    expect(faults(rule)).toEqual([fault]);
  });

  test.each<[ValidationRule, string]>([
    [{ rule: "true", messageExpression: "self.replicas" }, "FieldValueInvalid messageExpression"],
    [{ rule: "true", messageExpression: " " }, "FieldValueRequired messageExpression"],
    [{ rule: "true", message: "a\nb" }, "FieldValueInvalid message"],
    [{ rule: "true ||\n false" }, "FieldValueRequired message"],
    [{ rule: "true", reason: "Because" }, "FieldValueNotSupported reason"],
    [{ rule: "true", fieldPath: ".nosuch" }, "FieldValueInvalid fieldPath"],
    [{ rule: "true", fieldPath: "nested" }, "FieldValueInvalid fieldPath"],
  ])("rejects %j: %s", (rule, fault) => {
    expect(faults(rule)).toContain(fault);
  });

  test("rejects oldSelf below a list without item identity", () => {
    const list: Schema = { type: "array", items: withRules(text, "self == oldSelf") };
    const causes = validateStructural({ type: "object", properties: { list } }, "s");
    expect(causes.map(({ field }) => field)).toEqual(["s.properties[list].items.x-kubernetes-validations[0].rule"]);
  });
});

describe("bounds", () => {
  const numbers: Schema = { type: "array", items: integer };

  test("rejects a rule before evaluation if it may exceed the budget", () => {
    const rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    const [cause] = causesOf(
      withRules(numbers, rule),
      Array.from({ length: 1_000 }, (_, index) => index),
    );
    expect(cause?.message).toContain("running out of cost budget");
    expect(causesOf(withRules(numbers, rule), [1, 2, 3])).toEqual([]);
  });

  test("matches a pattern that makes backtracking engines explode in linear time", () => {
    const schema = withRules(text, "self.matches('^(a+)+$')");
    expect(causesOf(schema, `${"a".repeat(5_000)}!`)).toHaveLength(1);
  });

  test("treats __proto__ and constructor as absent fields", () => {
    const schema = withRules(spec, "!has(self.nested)");
    expect(causesOf(schema, JSON.parse('{"__proto__": {"nested": {}}, "constructor": 1}'))).toEqual([]);
  });
});
