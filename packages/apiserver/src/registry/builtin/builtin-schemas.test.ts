import { describe, expect, it } from "vitest";
import { readFileSync } from "node:fs";
import { builtinKindSchema, builtinSchema } from "./builtin-schemas.ts";
import { definitionNames, definitionOf, longName } from "./definition.ts";

interface Facts {
  definitions: Record<string, { properties?: Record<string, unknown>; required?: string[] }>;
}

const readFacts = (name: string): Facts =>
  JSON.parse(readFileSync(new URL(`../../../testdata/${name}`, import.meta.url), "utf8")) as Facts;
const facts: Facts = {
  definitions: Object.assign(
    {},
    ...["kubernetes", "flowcontrol", "additional"].map((name) => readFacts(`${name}-openapi.json`).definitions),
  ),
};

describe("built-in schemas", () => {
  it("have all definitions of the recorded OpenAPI document with all fields", () => {
    expect(definitionNames().map(longName).sort()).toEqual(Object.keys(facts.definitions).sort());
    for (const name of definitionNames()) {
      const fact = facts.definitions[longName(name)];
      const { fields } = definitionOf(name);
      expect(fields.map((field) => field.name).sort()).toEqual(Object.keys(fact?.properties ?? {}).sort());
      expect(
        fields
          .filter(({ isRequired }) => isRequired)
          .map((field) => field.name)
          .sort(),
      ).toEqual((fact?.required ?? []).sort());
    }
  });

  it("resolve references lazily and always to the same object", () => {
    const pod = builtinKindSchema("", "v1", "Pod");
    const template = builtinSchema("core.v1.PodTemplateSpec");
    expect(pod?.properties?.["spec"]).toBe(template.properties?.["spec"]);
    expect(pod?.properties?.["spec"]).toBe(builtinSchema("core.v1.PodSpec"));
    const props = builtinSchema("apiextensions.v1.JSONSchemaProps");
    expect(props.properties?.["not"]).toBe(props);
    const containers = builtinSchema("core.v1.PodSpec").properties?.["containers"];
    expect(containers?.items).toBe(containers?.items);
    expect(containers?.items).toBe(builtinSchema("core.v1.Container"));
  });

  it("keep the list and map types that patches need", () => {
    const containers = builtinSchema("core.v1.PodSpec").properties?.["containers"];
    expect({ ...containers, items: undefined }).toEqual({
      type: "array",
      items: undefined,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      "x-go-zero-keys": true,
      "x-kubernetes-patch-strategy": "merge",
      "x-kubernetes-patch-merge-key": "name",
    });
    expect(builtinSchema("apps.v1.DeploymentSpec").properties?.["strategy"]).toMatchObject({
      "x-kubernetes-patch-strategy": "retainKeys",
      properties: { type: { type: "string" } },
    });
    expect(builtinSchema("meta.v1.LabelSelector")["x-kubernetes-map-type"]).toBe("atomic");
  });

  it("know the types that JSON cannot express", () => {
    expect(builtinSchema("core.v1.ServicePort").properties?.["targetPort"]).toEqual({ "x-kubernetes-int-or-string": true });
    expect(builtinSchema("core.v1.ResourceRequirements").properties?.["limits"]?.additionalProperties).toEqual({
      type: "string",
      format: "quantity",
    });
    expect(builtinSchema("meta.v1.ObjectMeta").properties?.["creationTimestamp"]).toMatchObject({
      type: "string",
      format: "date-time",
    });
    expect(builtinSchema("core.v1.Secret").properties?.["data"]?.additionalProperties).toEqual({
      type: "string",
      format: "byte",
    });
    expect(builtinSchema("apps.v1.ControllerRevision").properties?.["data"]).toEqual({
      type: "object",
      "x-kubernetes-map-type": "atomic",
      "x-kubernetes-preserve-unknown-fields": true,
    });
  });

  it("know the defaults of list-map keys, so that apply may omit them", () => {
    expect(builtinSchema("core.v1.ServicePort").properties?.["protocol"]).toEqual({ type: "string", default: "TCP" });
    expect(builtinSchema("core.v1.ContainerPort").properties?.["protocol"]).toEqual({ type: "string", default: "TCP" });
  });

  it("lack kinds that are not in the recorded document", () => {
    expect(builtinKindSchema("", "v1", "Nonesuch")).toBeUndefined();
    expect(() => builtinSchema("core.v1.Nonesuch")).toThrow(/Nonesuch/);
  });
});
