import { BinaryReader } from "@bufbuild/protobuf/wire";
import { describe, expect, it } from "vitest";
import { builtinKinds } from "../../registry/builtin-kinds.ts";
import { noReviews } from "../../registry/testing/crd-samples.ts";
import { groupResources } from "../resource-groups.ts";
import { openApiV3 } from "./openapi-documents.ts";
import { encodeOpenApiV3 } from "./openapi-v3-protobuf.ts";

/**
 * The messages of openapiv3/OpenAPIv3.proto that a document of Kubernetes uses, one per line: `name=number:type`. `[]` is repeated, `{}` a
 * repeated field of named values, `*` the named extensions, and a message with `|` is the value of its only field.
 */
const definitions = `
Document openapi=1:string info=2:Info paths=4:Paths components=5:Components *=9:Any
Info title=1:string description=2:string version=6:string *=7:Any
Paths {}=1:PathItem *=2:Any
PathItem get=4:Operation put=5:Operation post=6:Operation delete=7:Operation options=8:Operation head=9:Operation patch=10:Operation parameters=13:[]ParameterOrReference *=14:Any
Operation tags=1:[]string summary=2:string description=3:string operationId=5:string parameters=6:[]ParameterOrReference requestBody=7:RequestBodyOrReference responses=8:Responses deprecated=10:bool *=13:Any
ParameterOrReference |=1:Parameter |=2:Reference
Parameter name=1:string in=2:string description=3:string required=4:bool schema=10:SchemaOrReference *=14:Any
RequestBodyOrReference |=1:RequestBody |=2:Reference
RequestBody description=1:string content=2:MediaTypes required=3:bool *=4:Any
Responses default=1:ResponseOrReference {}=2:ResponseOrReference *=3:Any
ResponseOrReference |=1:Response |=2:Reference
Response description=1:string content=3:MediaTypes *=5:Any
MediaTypes {}=1:MediaType
MediaType schema=1:SchemaOrReference *=5:Any
Components schemas=1:Schemas *=10:Any
Schemas {}=1:SchemaOrReference
SchemaOrReference |=1:Schema |=2:Reference
Reference $ref=1:string summary=2:string description=3:string
Schema nullable=1:bool externalDocs=6:ExternalDocs example=7:Any title=9:string multipleOf=10:double maximum=11:double exclusiveMaximum=12:bool minimum=13:double exclusiveMinimum=14:bool maxLength=15:int64 minLength=16:int64 pattern=17:string maxItems=18:int64 minItems=19:int64 uniqueItems=20:bool maxProperties=21:int64 minProperties=22:int64 required=23:[]string enum=24:[]Any type=25:string allOf=26:[]SchemaOrReference oneOf=27:[]SchemaOrReference anyOf=28:[]SchemaOrReference not=29:Schema items=30:Items properties=31:Schemas additionalProperties=32:AdditionalProperties default=33:Default description=34:string format=35:string *=36:Any
ExternalDocs description=1:string url=2:string *=3:Any
Items |=1:SchemaOrReference
AdditionalProperties |=1:SchemaOrReference |=2:bool
Default |=1:double |=2:bool |=3:string
Any |=2:yaml
`;

type Field = { readonly name: string; readonly type: string };

const messages = new Map(
  definitions
    .trim()
    .split("\n")
    .map((line) => {
      const [message = "", ...fields] = line.split(" ");
      const byNumber = fields.map((field) => {
        const [name = "", number = "", type = ""] = field.split(/[=:]/);
        return [Number(number), { name, type }] as const;
      });
      return [message, new Map<number, Field>(byNumber)] as const;
    }),
);

function decodeMessage(bytes: Uint8Array, name: string): unknown {
  const reader = new BinaryReader(bytes);
  const result: Record<string, unknown> = {};
  while (reader.pos < reader.len) {
    const [number] = reader.tag();
    const field = messages.get(name)?.get(number);
    if (field === undefined) throw new Error(`${name} has no field ${number}`);
    if (field.name === "|") return decodeValue(reader, field.type);
    if (field.name === "{}" || field.name === "*") {
      const entry = new BinaryReader(reader.bytes());
      entry.tag();
      const key = entry.string();
      entry.tag();
      result[key] = decodeValue(entry, field.type);
    } else if (field.type.startsWith("[]")) {
      const list = (result[field.name] ??= []) as unknown[];
      list.push(decodeValue(reader, field.type.slice(2)));
    } else result[field.name] = decodeValue(reader, field.type);
  }
  return result;
}

function decodeValue(reader: BinaryReader, type: string): unknown {
  switch (type) {
    case "string":
      return reader.string();
    case "bool":
      return reader.bool();
    case "int64":
      return Number(reader.int64());
    case "double":
      return reader.double();
    case "yaml":
      return JSON.parse(reader.string());
    default:
      return decodeMessage(reader.bytes(), type);
  }
}

/** An empty list has no element on the wire, so that it is absent after decoding. */
function withoutEmptyLists(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_key, child) => (Array.isArray(child) && child.length === 0 ? undefined : child)));
}

const groups = groupResources(builtinKinds({ clock: { now: () => 0 }, reviews: noReviews }));

describe("an OpenAPI v3 document in protobuf", () => {
  it.each(groups.flatMap(({ versions }) => versions.map((version) => [version.group, version.version, version] as const)))(
    "carries all of the JSON document: %s/%s",
    (_group, _version, groupVersion) => {
      const document = openApiV3(groupVersion, "v1.35.0");
      expect(decodeMessage(encodeOpenApiV3(document), "Document")).toEqual(withoutEmptyLists(document));
    },
  );

  const decodeSchema = (schema: object): unknown =>
    (decodeMessage(encodeOpenApiV3({ components: { schemas: { A: schema } } }), "Document") as { components: unknown })
      .components;

  it("carries every keyword of a custom kind's schema", () => {
    const schema = {
      title: "t",
      description: "é",
      type: "object",
      nullable: true,
      required: ["a", "b"],
      externalDocs: { description: "d", url: "https://example.com" },
      example: { a: [1] },
      enum: ["x", 1, { y: [true] }],
      minProperties: 1,
      maxProperties: 300,
      properties: {
        a: {
          type: "number",
          minimum: -1.5,
          maximum: 2,
          exclusiveMinimum: true,
          exclusiveMaximum: false,
          multipleOf: 0.5,
          default: 1,
        },
        b: { type: "string", minLength: 0, maxLength: 5_000_000_000, pattern: "^a$", format: "byte", default: "s" },
        c: { type: "array", minItems: 1, maxItems: 2, uniqueItems: false, items: { $ref: "#/components/schemas/A" } },
        d: { type: "boolean", default: false },
        e: {
          allOf: [{ required: ["a"] }],
          anyOf: [{ type: "string" }, {}],
          oneOf: [{ type: "integer" }],
          not: { type: "null" },
        },
        f: { additionalProperties: false },
        g: { additionalProperties: { $ref: "#/components/schemas/A" } },
        "x-name": { type: "string", "x-kubernetes-validations": [{ rule: "self == 'a'", message: "m" }] },
        $ref: { type: "string" },
      },
      "x-kubernetes-group-version-kind": [{ group: "example.com", kind: "A", version: "v1" }],
    };
    expect(decodeSchema(schema)).toEqual({ schemas: { A: schema } });
  });

  it("omits what the message cannot hold: contents of defaults, null keywords and unknown ones", () => {
    const schema = { type: "object", default: { a: 1 }, items: null, enum: null, unknownKeyword: 1 };
    expect(decodeSchema(schema)).toEqual({ schemas: { A: { type: "object", default: {} } } });
  });
});
