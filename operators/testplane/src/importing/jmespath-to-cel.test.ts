import { describe, expect, it } from "vitest";
import { evaluateCel } from "../assertions/cel-assertion.ts";
import { jmesPathToCel } from "./jmespath-to-cel.ts";

const variables = new Map([
  ["a", "(1)"],
  ["name", "bindings.name"],
  ["stdout", "result.stdout"],
]);
const convert = (source: string) => jmesPathToCel(source, { variables, root: "object" });
const object = { spec: { replicas: 3, "k8s-app": "dns", list: ["x", "y"], type: "A" }, data: { foo: "bar" } };
const result = { stdout: '{"a": [1]} ', stderr: "", json: { a: [1] } };

describe("JMESPath", () => {
  it.each([
    ["spec.replicas", 3],
    ["spec.replicas > `2`", true],
    ["spec.replicas >= `2` && data.foo == 'bar'", true],
    ["!(spec.replicas == `3`) || data.foo != 'bar'", false],
    ['spec."k8s-app"', "dns"],
    ["spec.list[1]", "y"],
    ["length(spec.list)", 2],
    ["length(spec.list) == `2`", true],
    ["contains(spec.list, 'x')", true],
    ["starts_with(data.foo, 'ba')", true],
    ["ends_with(data.foo, 'x')", false],
    ["join('-', [data.foo, 'x'])", "bar-x"],
    ["join('-', ['n', to_string($a + `1`)])", "n-2"],
    ["to_string($a)", "1"],
    ["to_upper($name)", "WEB"],
    ["@.data.foo", "bar"],
    ['`{"a": [1, null]}`', { a: [1, null] }],
    ["'it\\'s'", "it's"],
    ["json_parse($stdout).a[0]", 1],
    ["contains($stdout, 'a')", true],
    ["trim_space($stdout) == '{\"a\": [1]}'", true],
    ["(`1` + `2`) * `3`", 9],
  ])("%s becomes CEL with the same value", (source, value) => {
    const cel = convert(source);
    expect(evaluateCel(cel, { object, result, bindings: { name: "web" } }), cel).toEqual({ kind: "value", value });
  });

  it.each([
    ["spec.list[*]", /no counterpart in CEL/],
    ["spec.list[?@ == 'x']", /no counterpart in CEL/],
    ["spec.list[-1]", /no counterpart in CEL/],
    ["a | b", /no counterpart in CEL/],
    ["&a", /no counterpart in CEL/],
    ["a.", /no counterpart in CEL/],
    ["a b", /no counterpart in CEL/],
    ["`{`", /is not valid JSON/],
    ["$other", /\$other is not available/],
    ["x_k8s_list($a)", /x_k8s_list\(\): this function has no counterpart/],
    ["length(a, b)", /length\(\): must have 1 arguments/],
    ["json_parse(data.foo)", /only \$stdout can be parsed/],
  ])("%s is not converted", (source, message) => {
    expect(() => convert(source)).toThrow(message);
  });

  it("without a current value cannot read fields", () => {
    expect(() => jmesPathToCel("data.foo", { variables, root: undefined })).toThrow("reads the current value");
  });
});
