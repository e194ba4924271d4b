import { expect, it } from "vitest";
import { formatWarnings } from "./format-warnings.ts";

const crd = (...formats: readonly string[]): unknown => ({
  spec: {
    versions: [
      {
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: {
              list: { type: "array", items: { type: "string", format: formats[0] } },
              number: { type: "integer", format: "unknown" },
              choice: { type: "string", anyOf: formats.slice(1).map((format) => ({ type: "string", format })) },
            },
          },
        },
      },
    ],
  },
});

it("names the formats of texts that have no effect, unless the CRD had them before", () => {
  expect(formatWarnings(crd("date-time", "email"))).toEqual([]);
  expect(formatWarnings(crd("other", "k8s-short-name", "more"))).toEqual([
    'unrecognized format "more"',
    'unrecognized format "other"',
  ]);
  expect(formatWarnings(crd("other", "more"), crd("other"))).toEqual(['unrecognized format "more"']);
});
