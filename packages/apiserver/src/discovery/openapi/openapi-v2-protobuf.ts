import {
  anyValue,
  encodeMessage,
  type FieldWriter,
  flag,
  listOf,
  messageOf,
  type MessageShape,
  orFlag,
  schemaFields,
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
const schemaOrFlag = orFlag(schema);

const definitions: FieldWriter = messageOf(() => ({ map: [1, schema] }));

const schemaShape: MessageShape = {
  fields: {
    $ref: [1, text],
    format: [2, text],
    title: [3, text],
    description: [4, text],
    default: [5, anyValue],
    ...schemaFields(6),
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

/** The shape of a parameter outside the body, whose fields after the name have other numbers in each location. */
function parameterShape(typeNumber: number, uniqueNumber: number): MessageShape {
  return {
    fields: {
      required: [1, flag],
      in: [2, text],
      description: [3, text],
      name: [4, text],
      type: [typeNumber, text],
      uniqueItems: [uniqueNumber, flag],
    },
  };
}

const queryParameter = messageOf(() => parameterShape(6, 20));
const pathParameter = messageOf(() => parameterShape(5, 19));

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
    tags: [1, listOf(text)],
    description: [3, text],
    operationId: [5, text],
    produces: [6, listOf(text)],
    consumes: [7, listOf(text)],
    parameters: [8, listOf(parameter)],
    responses: [9, responses],
    schemes: [10, listOf(text)],
  },
  extensions: 13,
}));

const pathItem = messageOf(() => ({
  fields: {
    get: [2, operation],
    put: [3, operation],
    post: [4, operation],
    delete: [5, operation],
    options: [6, operation],
    head: [7, operation],
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
