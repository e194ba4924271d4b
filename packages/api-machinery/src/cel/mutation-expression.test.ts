import { describe, expect, test } from "vitest";
import { toCel } from "./expression.ts";
import { MutationCompiler } from "./mutation-expression.ts";

function valueOf<T>(compiled: T | string): T {
  if (typeof compiled === "string") throw new TypeError(compiled);
  return compiled;
}

function configuration(expression: string, object: unknown = {}): unknown {
  const compiler = new MutationCompiler(["object"], [expression]);
  return valueOf(compiler.compileConfiguration(expression))({ object: toCel(object) });
}

function patch(expression: string, object: unknown = {}): unknown {
  const compiler = new MutationCompiler(["object"], [expression]);
  return valueOf(compiler.compilePatch(expression))({ object: toCel(object) });
}

function faultOf(expression: string, type: "configuration" | "patch" = "configuration"): unknown {
  const compiler = new MutationCompiler(["object"], [expression]);
  const compiled = type === "patch" ? compiler.compilePatch(expression) : compiler.compileConfiguration(expression);
  return typeof compiled === "string" ? compiled : undefined;
}

describe("an apply configuration", () => {
  test("is constructed from nested objects, lists and maps", () => {
    const expression = `Object{
      metadata: Object.metadata{labels: {"a.b/c": 'x', "brace": "{}"}}, // Object{
      spec: Object.spec{
        replicas: object.spec.replicas + 1,
        containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, args: [c.name, "}"]}),
        paused: has(object.spec.paused) ? true : false,
      },
    }`;
    expect(configuration(expression, { spec: { replicas: 2, containers: [{ name: "a" }, { name: "b" }] } })).toEqual({
      metadata: { labels: { "a.b/c": "x", brace: "{}" } },
      spec: {
        replicas: 3,
        containers: [
          { name: "a", args: ["a", "}"] },
          { name: "b", args: ["b", "}"] },
        ],
        paused: false,
      },
    });
  });

  test("omits optional fields without a value", () => {
    const expression = "Object{spec: Object.spec{?a: object.?a, ?b: object.?b, `c-d`: 1}}";
    expect(configuration(expression, { a: 1.5 })).toEqual({ spec: { a: 1.5, "c-d": 1 } });
  });

  test("may be a choice between objects, whose fields can be read", () => {
    const expression = `object.a == 1 ? Object{} : Object{spec: Object.spec{a: Object.spec{b: "x"}.b + "y"}}`;
    expect(configuration(expression, { a: 1 })).toEqual({});
    expect(configuration(expression, { a: 2 })).toEqual({ spec: { a: "xy" } });
  });

  test("takes objects from variables of the same policy", () => {
    const variable = 'Object.spec{a: "x"}';
    const expression = "Object{spec: variables.spec}";
    const compiler = new MutationCompiler(["variables"], [variable, expression]);
    const spec = valueOf(compiler.compileVariable(variable)).evaluate({});
    expect(valueOf(compiler.compileConfiguration(expression))({ variables: { spec } })).toEqual({ spec: { a: "x" } });
  });

  test("fails if a type name does not match its field", () => {
    const message =
      'unexpected type name "Object.other", expected "Object.spec", which matches field name path from root Object type';
    expect(() => configuration("Object{spec: Object.other{}}")).toThrow(`type mismatch: ${message}`);
    expect(() => configuration("Object{spec: [{'a': Object.other{}}]}")).toThrow(`type mismatch: ${message}`);
    expect(() => configuration("Object{?spec: 1}")).toThrow("cannot initialize optional entry 'spec' from non-optional value");
  });

  test.each([
    ["'text'", "must evaluate to Object but got string"],
    ["Object.spec{}", "must evaluate to Object but got Object.spec"],
    ["[Object{}]", "must evaluate to Object but got list(Object)"],
    [
      "Object{",
      "compilation failed: ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}\n | Object{\n | .......^",
    ],
    [
      "Object{a 1}",
      "compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input '1' expecting ':'\n | Object{a 1}\n | .........^",
    ],
    [
      "Object{a: missing}",
      "compilation failed: ERROR: <input>:1:11: undeclared reference to 'missing' (in container '')\n | Object{a: missing}\n | ..........^",
    ],
  ])("does not compile from %s", (expression, message) => expect(faultOf(expression)).toBe(message));

  test("is limited in depth", () => {
    expect(faultOf(`${"Object{a: ".repeat(5000)}1${"}".repeat(5000)}`)).toBe(
      "compilation failed: expression recursion limit exceeded: 100",
    );
  });
});

describe("a JSON Patch", () => {
  test("has operations with values of any type", () => {
    const expression = `[
      JSONPatch{op: "test", path: "/a", value: null},
      JSONPatch{op: "add", path: "/data/" + jsonpatch.escapeKey("a/b~c"), value: {"x": 1, "y": [true]}},
      JSONPatch{op: "add", path: "/spec/selector", value: Object.spec.selector{matchLabels: {"a": "b"}}},
      JSONPatch{op: "move", from: "/a", path: "/b"},
    ].filter(p, p.path != "/none")`;
    expect(patch(expression)).toEqual([
      { op: "test", path: "/a", value: null },
      { op: "add", path: "/data/a~1b~0c", value: { x: 1, y: [true] } },
      { op: "add", path: "/spec/selector", value: { matchLabels: { a: "b" } } },
      { op: "move", from: "/a", path: "/b" },
    ]);
  });

  test("may be empty, a choice or a concatenation", () => {
    expect(patch("[]")).toEqual([]);
    expect(patch('"a" in object ? [JSONPatch{op: "remove", path: "/a"}] : []', { a: 1 })).toEqual([
      { op: "remove", path: "/a" },
    ]);
    expect(
      patch('[JSONPatch{op: "remove", path: "/a"}] + object.list.map(x, JSONPatch{op: "remove", path: x})', { list: ["/b"] }),
    ).toEqual([
      { op: "remove", path: "/a" },
      { op: "remove", path: "/b" },
    ]);
  });

  test.each([
    ["Object{}", "must evaluate to list(JSONPatch) but got Object"],
    ["['a']", "must evaluate to list(JSONPatch) but got list(string)"],
  ])("does not compile from %s", (expression, message) => expect(faultOf(expression, "patch")).toBe(message));

  test("fails for unknown fields and for items of another type", () => {
    expect(() => patch('[JSONPatch{op: "add", where: "/a"}]')).toThrow("unexpected JSONPatchType field: where");
    expect(() => patch("object.items", { items: [1] })).toThrow("should evaluate to array of JSONPatch");
  });
});
