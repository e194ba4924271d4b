import {
  anyValue,
  double,
  encodeMessage,
  type FieldWriter,
  flag,
  integer,
  listOf,
  messageOf,
  type MessageShape,
  text,
  wrapped,
} from "./message-writer.ts";

/**
 * Encodes an OpenAPI v2 document as the message `openapi.v2.Document` of google/gnostic-models (`openapiv2/OpenAPIv2.proto`). kubectl reads
 * it for `explain`, validation and merge keys. Keywords that the message does not have are omitted.
 */
export function encodeOpenApiV2(document: object): Uint8Array {
  return encodeMessage(documentShape, document);
}

const schema: FieldWriter = messageOf(() => schemaShape);

/** `AdditionalPropertiesItem { oneof { Schema schema = 1; bool boolean = 2 } }` */
const schemaOrFlag: FieldWriter = (writer, number, value) =>
  (typeof value === "boolean" ? wrapped(2, flag) : wrapped(1, schema))(writer, number, value);

const definitions: FieldWriter = messageOf(() => ({ map: [1, schema] }));

const schemaShape: MessageShape = {
  fields: {
    $ref: [1, text],
    format: [2, text],
    title: [3, text],
    description: [4, text],
    default: [5, anyValue],
    multipleOf: [6, double],
    maximum: [7, double],
    exclusiveMaximum: [8, flag],
    minimum: [9, double],
    exclusiveMinimum: [10, flag],
    maxLength: [11, integer],
    minLength: [12, integer],
    pattern: [13, text],
    maxItems: [14, integer],
    minItems: [15, integer],
    uniqueItems: [16, flag],
    maxProperties: [17, integer],
    minProperties: [18, integer],
    required: [19, listOf(text)],
    enum: [20, listOf(anyValue)],
    additionalProperties: [21, schemaOrFlag],
    type: [22, wrapped(1, text)],
    items: [23, wrapped(1, schema)],
    properties: [25, definitions],
    example: [30, anyValue],
  },
  extensions: 31,
};

const bodyParameter = messageOf(() => ({
  fields: { description: [1, text], name: [2, text], in: [3, text], required: [4, flag], schema: [5, schema] },
}));

const queryParameter = messageOf(() => ({
  fields: {
    required: [1, flag],
    in: [2, text],
    description: [3, text],
    name: [4, text],
    type: [6, text],
    uniqueItems: [20, flag],
  },
}));

const pathParameter = messageOf(() => ({
  fields: {
    required: [1, flag],
    in: [2, text],
    description: [3, text],
    name: [4, text],
    type: [5, text],
    uniqueItems: [19, flag],
  },
}));

/** `ParametersItem { Parameter { BodyParameter | NonBodyParameter { QueryParameterSubSchema | PathParameterSubSchema } } }` */
const parameter: FieldWriter = (writer, number, value) => writerOfParameter(value)(writer, number, value);

function writerOfParameter(value: unknown): FieldWriter {
  const location: unknown = typeof value === "object" && value !== null && "in" in value ? value.in : undefined;
  if (location === "body") return wrapped(1, wrapped(1, bodyParameter));
  return wrapped(1, wrapped(2, location === "path" ? wrapped(4, pathParameter) : wrapped(3, queryParameter)));
}

const response = messageOf(() => ({ fields: { description: [1, text], schema: [2, wrapped(1, schema)] } }));
const responses = messageOf(() => ({ map: [1, wrapped(1, response)] }));

const operation = messageOf(() => ({
  fields: {
    description: [3, text],
    operationId: [5, text],
    produces: [6, listOf(text)],
    consumes: [7, listOf(text)],
    parameters: [8, listOf(parameter)],
    responses: [9, responses],
  },
  extensions: 13,
}));

const pathItem = messageOf(() => ({
  fields: {
    get: [2, operation],
    put: [3, operation],
    post: [4, operation],
    delete: [5, operation],
    patch: [8, operation],
    parameters: [9, listOf(parameter)],
  },
  extensions: 10,
}));

const info = messageOf(() => ({
  fields: { title: [1, text], version: [2, text], description: [3, text] },
  extensions: 7,
}));

const documentShape: MessageShape = {
  fields: {
    swagger: [1, text],
    info: [2, info],
    paths: [8, messageOf(() => ({ map: [2, pathItem] }))],
    definitions: [9, definitions],
  },
  extensions: 16,
};
