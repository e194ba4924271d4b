import {
  anyValue,
  double,
  encodeMessage,
  type FieldWriter,
  flag,
  isReference,
  listOf,
  messageOf,
  type MessageShape,
  orFlag,
  schemaFields,
  text,
  wrapped,
} from "./message-writer.ts";

/**
 * Encodes an OpenAPI v3 document as the message `openapi.v3.Document` of google/gnostic-models (`openapiv3/OpenAPIv3.proto`), which client-go
 * requests. Keywords that the message does not have are omitted, and so are the contents of defaults that are objects or lists.
 */
export function encodeOpenApiV3(document: object): Uint8Array {
  return encodeMessage(documentShape, document);
}

const reference = messageOf(() => ({ fields: { $ref: [1, text], summary: [2, text], description: [3, text] } }));

/** A message `XOrReference { oneof { X = 1; Reference reference = 2 } }`. */
function orReference(write: FieldWriter): FieldWriter {
  return (writer, number, value) => (isReference(value) ? wrapped(2, reference) : wrapped(1, write))(writer, number, value);
}

const schema = messageOf(() => schemaShape);
const schemaOrReference = orReference(schema);

/** `AdditionalPropertiesItem { oneof { SchemaOrReference schema_or_reference = 1; bool boolean = 2 } }` */
const additionalProperties = orFlag(schemaOrReference);

/** `DefaultType { oneof { double number = 1; bool boolean = 2; string string = 3 } }`; empty for other values. */
const defaultValue: FieldWriter = (writer, number, value) => writerOfDefault(value)(writer, number, value);

function writerOfDefault(value: unknown): FieldWriter {
  switch (typeof value) {
    case "number":
      return wrapped(1, double);
    case "boolean":
      return wrapped(2, flag);
    case "string":
      return wrapped(3, text);
    default:
      return wrapped(1, () => undefined);
  }
}

const schemas = messageOf(() => ({ map: [1, schemaOrReference] }));

const externalDocs = messageOf(() => ({ fields: { description: [1, text], url: [2, text] }, extensions: 3 }));

const schemaShape: MessageShape = {
  fields: {
    nullable: [1, flag],
    externalDocs: [6, externalDocs],
    example: [7, anyValue],
    title: [9, text],
    ...schemaFields(10),
    type: [25, text],
    allOf: [26, listOf(schemaOrReference)],
    oneOf: [27, listOf(schemaOrReference)],
    anyOf: [28, listOf(schemaOrReference)],
    not: [29, schema],
    items: [30, wrapped(1, schemaOrReference)],
    properties: [31, schemas],
    additionalProperties: [32, additionalProperties],
    default: [33, defaultValue],
    description: [34, text],
    format: [35, text],
  },
  extensions: 36,
};

const mediaTypes = messageOf(() => ({
  map: [1, messageOf(() => ({ fields: { schema: [1, schemaOrReference] }, extensions: 5 }))],
}));

const parameter = messageOf(() => ({
  fields: {
    name: [1, text],
    in: [2, text],
    description: [3, text],
    required: [4, flag],
    schema: [10, schemaOrReference],
  },
  extensions: 14,
}));

const requestBody = messageOf(() => ({
  fields: { description: [1, text], content: [2, mediaTypes], required: [3, flag] },
  extensions: 4,
}));

const response = orReference(
  messageOf(() => ({ fields: { description: [1, text], content: [3, mediaTypes] }, extensions: 5 })),
);

const responses = messageOf(() => ({ fields: { default: [1, response] }, map: [2, response], extensions: 3 }));

const operation = messageOf(() => ({
  fields: {
    tags: [1, listOf(text)],
    summary: [2, text],
    description: [3, text],
    operationId: [5, text],
    parameters: [6, listOf(orReference(parameter))],
    requestBody: [7, orReference(requestBody)],
    responses: [8, responses],
    deprecated: [10, flag],
  },
  extensions: 13,
}));

const pathItem = messageOf(() => ({
  fields: {
    summary: [2, text],
    description: [3, text],
    get: [4, operation],
    put: [5, operation],
    post: [6, operation],
    delete: [7, operation],
    options: [8, operation],
    head: [9, operation],
    patch: [10, operation],
    parameters: [13, listOf(orReference(parameter))],
  },
  extensions: 14,
}));

const info = messageOf(() => ({
  fields: { title: [1, text], description: [2, text], version: [6, text] },
  extensions: 7,
}));

const documentShape: MessageShape = {
  fields: {
    openapi: [1, text],
    info: [2, info],
    paths: [4, messageOf(() => ({ map: [1, pathItem], extensions: 2 }))],
    components: [5, messageOf(() => ({ fields: { schemas: [1, schemas] }, extensions: 10 }))],
  },
  extensions: 9,
};
