import { expect, it } from "vitest";
import { compileExpression } from "./expression.ts";
import { PolicyTypes } from "./policy-types.ts";

const names = ["object", "request", "namespaceObject", "authorizer", "variables"];

it.each([
  ["request.userInfo.username == 'a'", "bool"],
  ["request.namespace", "string"],
  ["namespaceObject == null", "bool"],
  ["request.userInfo.extra['a'][0]", "string"],
  ["namespaceObject.metadata.labels['a'] == 'b'", "bool"],
  ["namespaceObject.metadata.creationTimestamp", "google.protobuf.Timestamp"],
  ["object.spec.anything", "dyn"],
])("types %s as %s", (expression, type) => {
  const types = new PolicyTypes(names);
  expect(types.fault(expression)).toBeUndefined();
  expect(types.typeOf(expression)).toBe(type);
});

it.each([
  ["request.foo == 1", "1:8: undefined field 'foo'"],
  ["namespaceObject.foo == 1", "1:16: undefined field 'foo'"],
  ["variables.a", "1:1: undeclared reference to 'variables' (in container '')"],
  ["authorizer.foo()", "1:15: undeclared reference to 'foo' (in container '')"],
])("rejects %s", (expression, fault) => {
  expect(new PolicyTypes(names).fault(expression)).toContain(`compilation failed: ERROR: <input>:${fault}`);
});

it("types variables by their expressions, in their order", () => {
  const types = new PolicyTypes(names);
  types.declare("a", "variables.b");
  types.declare("b", "1");
  expect(types.typeOf("variables.b")).toBe("int");
  expect(types.typeOf("variables.a")).toBe("dyn");
  expect(types.fault("variables.c")).toContain("undefined field 'c'");
});

it.each([
  ["'a'.matches('[')", "1:13: invalid matches argument"],
  ["'a'.all(x, true)", "1:1: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)"],
  ["true ? 'a' : 1", "1:6: found no matching overload for '_?_:_' applied to '(bool, string, int)'"],
  ["foo(1)", "1:4: undeclared reference to 'foo' (in container '')"],
])("explains why %s does not compile", (expression, fault) => {
  expect(compileExpression(expression, [], "any")).toContain(`compilation failed: ERROR: <input>:${fault}`);
});
