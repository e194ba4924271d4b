import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** Requested media types. `@` is not legal in a media type, so the response uses {@link openApiProtobufType}. */
const requestedTypes: ReadonlySet<string> = new Set([
  "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
  "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
]);

/** The media type of {@link encodeOpenApiV2} in responses. Same as kube-apiserver. */
export const openApiProtobufType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/** Whether the Accept header prefers protobuf for OpenAPI v2: it comes before any other supported type. */
export function prefersOpenApiProtobuf(accept: string | undefined): boolean {
  for (const clause of (accept ?? "").split(",")) {
    const type = clause.split(";", 1)[0]?.trim().toLowerCase() ?? "";
    if (requestedTypes.has(type)) return true;
    if (type === "*/*" || type === "application/*" || type === "application/json") return false;
  }
  return false;
}

/**
 * Encodes an OpenAPI v2 document as the message `openapi.v2.Document` of google/gnostic (`openapiv2/OpenAPIv2.proto`). kubectl reads it
 * for `explain`, validation and merge keys. Keywords that the message does not have are omitted.
 */
export function encodeOpenApiV2(document: object): Uint8Array {
  return encode("Document", document);
}

/**
 * How a field is encoded; other names are the messages below. `one ...` is a message whose only field, number 1, is the value in JSON.
 */
type FieldType =
  | "string"
  | "bool"
  | "int64"
  | "double"
  | "any"
  | "schemaOrBool"
  | "parameter"
  | MessageName
  | "one string"
  | "one Schema"
  | "one Response";

/** A message: `[number, type]` by name in JSON. A `map` is one repeated field of entries `{name = 1, value = 2}`. */
interface MessageShape {
  readonly fields?: Readonly<Record<string, readonly [number: number, type: FieldType]>>;
  readonly map?: readonly [number: number, type: FieldType];
  /** Number of the repeated field for `x-` extensions. */
  readonly extensions?: number;
}

type MessageName =
  | "Definitions"
  | "Document"
  | "Info"
  | "Operation"
  | "PathItem"
  | "Paths"
  | "Response"
  | "Responses"
  | "Schema"
  | "BodyParameter"
  | "PathParameter"
  | "QueryParameter";

const messages: Readonly<Record<MessageName, MessageShape>> = {
  Document: {
    fields: { swagger: [1, "string"], info: [2, "Info"], paths: [8, "Paths"], definitions: [9, "Definitions"] },
    extensions: 16,
  },
  Info: { fields: { title: [1, "string"], version: [2, "string"], description: [3, "string"] }, extensions: 7 },
  Paths: { map: [2, "PathItem"] },
  PathItem: {
    fields: {
      get: [2, "Operation"],
      put: [3, "Operation"],
      post: [4, "Operation"],
      delete: [5, "Operation"],
      patch: [8, "Operation"],
      parameters: [9, "parameter"],
    },
    extensions: 10,
  },
  Operation: {
    fields: {
      description: [3, "string"],
      operationId: [5, "string"],
      produces: [6, "string"],
      consumes: [7, "string"],
      parameters: [8, "parameter"],
      responses: [9, "Responses"],
    },
    extensions: 13,
  },
  BodyParameter: {
    fields: {
      description: [1, "string"],
      name: [2, "string"],
      in: [3, "string"],
      required: [4, "bool"],
      schema: [5, "Schema"],
    },
  },
  QueryParameter: {
    fields: {
      required: [1, "bool"],
      in: [2, "string"],
      description: [3, "string"],
      name: [4, "string"],
      type: [6, "string"],
      uniqueItems: [20, "bool"],
    },
  },
  PathParameter: {
    fields: {
      required: [1, "bool"],
      in: [2, "string"],
      description: [3, "string"],
      name: [4, "string"],
      type: [5, "string"],
      uniqueItems: [19, "bool"],
    },
  },
  Responses: { map: [1, "one Response"] },
  Response: { fields: { description: [1, "string"], schema: [2, "one Schema"] } },
  Definitions: { map: [1, "Schema"] },
  Schema: {
    fields: {
      $ref: [1, "string"],
      format: [2, "string"],
      title: [3, "string"],
      description: [4, "string"],
      default: [5, "any"],
      multipleOf: [6, "double"],
      maximum: [7, "double"],
      exclusiveMaximum: [8, "bool"],
      minimum: [9, "double"],
      exclusiveMinimum: [10, "bool"],
      maxLength: [11, "int64"],
      minLength: [12, "int64"],
      pattern: [13, "string"],
      maxItems: [14, "int64"],
      minItems: [15, "int64"],
      uniqueItems: [16, "bool"],
      maxProperties: [17, "int64"],
      minProperties: [18, "int64"],
      required: [19, "string"],
      enum: [20, "any"],
      additionalProperties: [21, "schemaOrBool"],
      type: [22, "one string"],
      items: [23, "one Schema"],
      properties: [25, "Definitions"],
      example: [30, "any"],
    },
    extensions: 31,
  },
};

function encode(name: MessageName, value: object): Uint8Array {
  const { fields = {}, map, extensions } = messages[name];
  return message((writer) => {
    for (const [key, child] of Object.entries(value)) {
      const field = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (map !== undefined) writeEntry(writer, map, key, child);
      else if (field === undefined) {
        if (extensions !== undefined && key.startsWith("x-")) writeEntry(writer, [extensions, "any"], key, child);
      } else {
        // `default` and `example` may be lists themselves. All other lists are repeated fields.
        const isRepeated = Array.isArray(child) && key !== "default" && key !== "example";
        for (const element of isRepeated ? child : [child]) writeField(writer, field, element);
      }
    }
  });
}

function writeEntry(writer: BinaryWriter, [number, type]: readonly [number, FieldType], name: string, value: unknown): void {
  const entry = message((inner) => {
    writeField(inner, [1, "string"], name);
    writeField(inner, [2, type], value);
  });
  writeBytes(writer, number, entry);
}

function writeField(writer: BinaryWriter, [number, type]: readonly [number, FieldType], value: unknown): void {
  const nested = (field: readonly [number, FieldType], inner: unknown): void =>
    writeBytes(
      writer,
      number,
      message((innerWriter) => writeField(innerWriter, field, inner)),
    );
  switch (type) {
    case "string":
      writer.tag(number, WireType.LengthDelimited).string(String(value));
      return;
    case "bool":
      writer.tag(number, WireType.Varint).bool(value === true);
      return;
    case "int64":
      writer.tag(number, WireType.Varint).int64(BigInt(Math.trunc(Number(value))));
      return;
    case "double":
      writer.tag(number, WireType.Bit64).double(Number(value));
      return;
    case "any":
      // The message holds YAML, and JSON is YAML.
      return nested([2, "string"], JSON.stringify(value));
    case "schemaOrBool":
      return nested(typeof value === "boolean" ? [2, "bool"] : [1, "Schema"], value);
    case "parameter":
      return writeBytes(writer, number, parameterItem(asObject(value)));
    case "one string":
      return nested([1, "string"], value);
    case "one Schema":
      return nested([1, "Schema"], value);
    case "one Response":
      return nested([1, "Response"], value);
    default:
      return writeBytes(writer, number, encode(type, asObject(value)));
  }
}

function writeBytes(writer: BinaryWriter, number: number, bytes: Uint8Array): void {
  writer.tag(number, WireType.LengthDelimited).bytes(bytes);
}

/** `ParametersItem { Parameter { BodyParameter | NonBodyParameter { QueryParameterSubSchema | PathParameterSubSchema } } }`. */
function parameterItem(value: { readonly in?: unknown }): Uint8Array {
  const nested = (number: number, inner: Uint8Array): Uint8Array => message((writer) => writeBytes(writer, number, inner));
  if (value.in === "body") return nested(1, nested(1, encode("BodyParameter", value)));
  const parameter =
    value.in === "path" ? nested(4, encode("PathParameter", value)) : nested(3, encode("QueryParameter", value));
  return nested(1, nested(2, parameter));
}

function message(write: (writer: BinaryWriter) => void): Uint8Array {
  const writer = new BinaryWriter();
  write(writer);
  return writer.finish();
}

function asObject(value: unknown): object {
  if (typeof value !== "object" || value === null)
    throw new TypeError(`invalid OpenAPI document: ${JSON.stringify(value)} must be an object`);
  return value;
}
