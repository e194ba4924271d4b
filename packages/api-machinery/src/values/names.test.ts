import fc from "fast-check";
import { expect, test } from "vitest";
import {
  configMapKeyFaults,
  dns1035LabelFaults,
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  generateName,
  labelValueFaults,
  pathSegmentFaults,
  qualifiedNameFaults,
} from "./names.ts";

const label = (value: string) => [
  `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
  value,
];

test("accepts names that Kubernetes accepts", () => {
  expect(dns1123SubdomainFaults("a.b-c.d0")).toEqual([]);
  expect(dns1123LabelFaults("a-0")).toEqual([]);
  expect(dns1035LabelFaults("a0-b")).toEqual([]);
  expect(qualifiedNameFaults("example.com/My_Name.x")).toEqual([]);
  expect(labelValueFaults("")).toEqual([]);
  expect(configMapKeyFaults(".dockerconfigjson")).toEqual([]);
  expect(pathSegmentFaults("system:node")).toEqual([]);
});

test("reports faults with Kubernetes' messages", () => {
  expect(dns1123LabelFaults("Bad_Name")[0]).toBe(label("Bad_Name")[0]);
  expect(dns1123LabelFaults("a.b")).toEqual(["must not contain dots"]);
  expect(dns1123SubdomainFaults("Upper")).toEqual([
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
  ]);
  expect(dns1035LabelFaults("Widgets")).toEqual([
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
  ]);
  expect(qualifiedNameFaults("bad/key/x")[0]).toMatch(
    /^a valid label key must consist of .* with an optional DNS subdomain prefix and '\/' \(e\.g\. 'example\.com\/MyName'\)$/,
  );
  expect(qualifiedNameFaults("UPPER.example/x")[0]).toMatch(/^prefix part a lowercase RFC 1123 subdomain/);
  expect(qualifiedNameFaults("/x")).toEqual(["prefix part must be non-empty"]);
  expect(qualifiedNameFaults("bad key")[0]).toMatch(/^name part must consist of alphanumeric/);
  expect(labelValueFaults("no spaces allowed")[0]).toContain(
    "'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9]",
  );
  expect(labelValueFaults("v".repeat(64))).toEqual(["must be no more than 63 bytes"]);
  expect(dns1123SubdomainFaults("x".repeat(254))).toEqual(["must be no more than 253 characters"]);
  expect(configMapKeyFaults("..")).toEqual(["must not be '..'"]);
  expect(configMapKeyFaults("no/slash")[0]).toContain("a valid config key must consist of");
  expect(pathSegmentFaults("a/b%")).toEqual(["may not contain '/'", "may not contain '%'"]);
});

test("checks a long name in linear time", () => {
  // A quadratic check would exceed the test's timeout.
  for (const check of [dns1123SubdomainFaults, qualifiedNameFaults, labelValueFaults, configMapKeyFaults]) {
    expect(check(`${"a".repeat(1_000_000)}!`).length).toBeGreaterThan(0);
  }
});

test("generates valid names of at most 63 characters that start with the base", () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,80})$/),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (base, random) => {
        const name = generateName(base, () => random);
        expect(name.startsWith(base.slice(0, 58))).toBe(true);
        expect(dns1123LabelFaults(name)).toEqual([]);
      },
    ),
  );
});

test("takes a name for qualified if its optional prefix is a subdomain and its name has at most 63 characters", () => {
  const part = fc.string({ unit: fc.constantFrom("a", "Z", "1", "-", "_", ".", "/"), maxLength: 70 });
  const long = fc.constantFrom("x".repeat(63), "x".repeat(64), `${"a.".repeat(126)}a`, `${"a.".repeat(127)}a`);
  fc.assert(
    fc.property(
      fc.oneof(
        part,
        fc.tuple(fc.oneof(part, long), fc.oneof(part, long)).map((parts) => parts.join("/")),
      ),
      (value) => {
        const parts = value.split("/");
        const name = parts.at(-1) ?? "";
        const isValid =
          parts.length <= 2 &&
          (parts.length === 1 || dns1123SubdomainFaults(parts[0] ?? "").length === 0) &&
          /^[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$/.test(name) &&
          name.length <= 63;
        expect(qualifiedNameFaults(value).length === 0).toBe(isValid);
      },
    ),
  );
});
