import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseTemplate } from "./parse-template.ts";
import { renderTemplate } from "./render-template.ts";
import { TemplateError } from "./template-error.ts";

const render = (source: string, data: unknown = {}): string => renderTemplate(parseTemplate("t", source), data);
const failure = (source: string, data: unknown = {}): string => {
  try {
    return `rendered ${render(source, data)}`;
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return error.message;
  }
};

describe("templates", () => {
  it.each([
    ["a {{ .x }} b", { x: 1 }, "a 1 b"],
    ["a {{- .x -}} b", { x: 1 }, "a1b"],
    ["{{/* nothing */}}{{- /* more */ -}} x", {}, "x"],
    ["{{ .a.b.c }}", { a: { b: { c: "deep" } } }, "deep"],
    ["{{ if .x }}yes{{ else if .y }}maybe{{ else }}no{{ end }}", { x: 0, y: [1] }, "maybe"],
    ["{{ if and .x (not .y) }}1{{ end }}", { x: true }, "1"],
    ["{{ with .x }}{{ .y }}{{ $.z }}{{ else }}none{{ end }}", { x: { y: 1 }, z: 2 }, "12"],
    ["{{ range $k, $v := .m }}{{ $k }}={{ $v }};{{ end }}", { m: { b: 2, a: 1 } }, "a=1;b=2;"],
    [
      "{{ range .l }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if eq . 4 }}{{ break }}{{ end }}{{ . }}{{ end }}",
      { l: [1, 2, 3, 4, 5] },
      "13",
    ],
    ["{{ range .l }}x{{ else }}empty{{ end }}", { l: [] }, "empty"],
    ["{{ $n := 1 }}{{ range .l }}{{ $n = add $n . }}{{ end }}{{ $n }}", { l: [2, 3] }, "6"],
    ["{{ .Values.x | default 5 | quote }}", { Values: {} }, '"5"'],
    ['{{ define "n" }}[{{ .name }}]{{ end }}{{ include "n" . | indent 2 }}{{ template "n" . }}', { name: "r" }, "  [r][r]"],
    ["a:{{ toYaml .m | nindent 2 }}", { m: { k: [1], s: "t" } }, "a:\n  k:\n    - 1\n  s: t"],
    ['{{ index .m "a" 1 }}{{ len .m }}{{ toJson .m }}', { m: { a: [7, 8] } }, '81{"a":[7,8]}'],
    ['{{ printf "%s-%d-%q" "a" 3 "b" }}{{ `raw\\n` }}', {}, 'a-3-"b"raw\\n'],
    ["{{ or .x .y }}{{ ne 1 2 }}{{ lt 1 2 }}", { y: "z" }, "ztruetrue"],
    ["{{ .x }}", { x: "{{ .y }}" }, "{{ .y }}"],
  ])("renders %s", (source, data, expected) => {
    expect(render(source, data)).toBe(expected);
  });

  it.each([
    ["a\n  {{ .x }}", "t:2:6: .x: key not found"],
    ["{{ quote .x }}", "t:1:4: quote: argument 1: .x: key not found"],
    ["{{ .x.y }}", "t:1:4: .x.y: key not found"],
    ["{{ $a := dict }}{{ $a.b }}", "t:1:20: $a.b: key not found"],
    ["{{ .x | quote }}", "t:1:9: quote: argument 1: .x: key not found"],
    ["{{ nope 1 }}", 't:1:4: function "nope" not found'],
    ["{{ if .x }}", "t:1:4: missing {{end}}"],
    ["x{{ end }}", "t:1:5: unexpected {{end}}"],
    ["{{ .x ", "t:1:3: unterminated action: missing }}"],
    ['{{ "abc }}', "t:1:4: unterminated string"],
    ["{{ $x }}", "t:1:4: variable $x not defined"],
    ["{{ break }}", "t:1:4: {{break}} outside a range"],
    ['{{ include "x" . }}', 't:1:4: include: template "x" not found'],
    ['{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}', "t:1:20: template calls nested deeper than 64"],
    ['{{ required "name it" .x }}', "t:1:4: name it"],
    ["{{ .__proto__.x }}", "t:1:4: .__proto__.x: key not found"],
    ["{{ div 1 0 }}", "t:1:4: division by zero"],
    ["{{ 1 2 }}", "t:1:4: not a function, so it cannot have arguments"],
    ["{{ range until 9999 }}{{ range until 9999 }}{{ end }}{{ end }}", "t:1:32: more than 200000 steps"],
  ])("rejects %s with the position", (source, message) => {
    expect(failure(source)).toBe(message);
  });

  it.each([
    ["contains itself twice, repeatedly, as JSON", "until 40", "list $x $x", "toJson $x"],
    ["contains itself twice, repeatedly, as YAML", "until 40", "list $x $x", "toYaml $x"],
    ["contains itself twice, repeatedly, when printed", "until 40", 'dict "a" $x "b" $x', "$x"],
    ["is nested too deep", "until 5000", "list $x", "$x | toJson"],
    ["contains a long text often", "until 12", "list $x $x $x $x", "quote $x"],
  ])("rejects a value that %s", (_, count, build, use) => {
    const source = `{{ $x := list "${"x".repeat(100)}" }}{{ range ${count} }}{{ $x = ${build} }}{{ end }}{{ ${use} }}`;
    expect(failure(source)).toMatch(/^t:1:\d+: a list or a map is too large or too deep for a string$/);
  });

  it.each([
    ["lists", "{{ range until 9000 }}{{ $x := until 9000 }}{{ end }}"],
    ["maps that are only begun", "{{ range until 9000 }}{{ range $.m }}{{ break }}{{ end }}{{ end }}"],
    ["operands", `{{ range until 9000 }}{{ $x := list ${"$.m ".repeat(900)} }}{{ end }}`],
    ["fields", `{{ range until 9000 }}{{ $x := default 1 $.${"a.".repeat(900)}a }}{{ end }}`],
    ["calls of templates", `{{ define "e" }}{{ end }}{{ range until 9000 }}${'{{ template "e" }}'.repeat(90)}{{ end }}`],
  ])("limits the work with %s", (_, source) => {
    expect(failure(source, { m: Object.fromEntries(Array.from({ length: 900 }, (__, key) => [key, key])) })).toContain(
      "more than 200000 steps",
    );
  });

  it("limits the variables in scope, which each iteration copies", () => {
    const source = Array.from({ length: 300 }, (_, index) => `{{ $v${index} := 1 }}`).join("");
    expect(failure(source)).toContain("more than 256 variables");
  });

  it("throws only TemplateErrors for any source", () => {
    const piece = fc.constantFrom(
      "{{",
      "}}",
      "-",
      " ",
      "if",
      "end",
      "range",
      "else",
      ".x",
      "$x",
      ":=",
      "|",
      "(",
      ")",
      '"a"',
      "define",
      "\n",
      "1",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string({ maxLength: 3 })), { maxLength: 30 }), (pieces) => {
        failure(pieces.join(""), { x: [1, { a: 2 }] });
      }),
      { numRuns: 500 },
    );
  });

  it("renders text without actions unchanged", () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes("{{")),
        (text) => {
          expect(render(text)).toBe(text);
        },
      ),
    );
  });

  it("quotes any value so that it survives JSON", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(JSON.parse(render("{{ .x | quote }}", { x: text }))).toBe(text);
      }),
    );
  });
});
