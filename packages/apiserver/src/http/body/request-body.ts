import type { IncomingMessage } from "node:http";
import { statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { maxValues } from "../../endpoints/object/object-limits.ts";
import { takeSteps } from "../../endpoints/pause.ts";
import { maxBodyBytes, maxDepth, tooDeep, tooLarge, tooManyValues } from "./body-limits.ts";
import { type ParsedText, parseJsonInSteps, tryParseJsonInSteps } from "./json-text.ts";
import { type YamlResult, yamlToJson } from "./yaml-program.ts";
import { YamlWorker } from "./yaml-worker.ts";

/** A parsed body and its size; `value` is undefined if there is none. */
export interface RequestBody extends ParsedText {
  readonly bytes: number;
}

/** How {@link BodyReader.read} reads a body. */
export interface ReadOptions {
  readonly mergesDuplicates: boolean;
  readonly isTyped: boolean;
}

/** Reads and parses request bodies within limits. */
export interface BodyReader {
  /**
   * Reads and parses the body of a request. With `mergesDuplicates`, objects of duplicate keys in JSON are merged. `isTyped` says whether
   * the request is for a built-in kind.
   *
   * **Errors**: `RequestEntityTooLarge` beyond the limits, `UnsupportedMediaType`, or `BadRequest` if it does not match its media type.
   */
  read(request: IncomingMessage, options: ReadOptions): Promise<RequestBody>;
  close(): Promise<void>;
}

const noBody: RequestBody = { value: undefined, duplicateFields: [], bytes: 0 };

/** Media types of a PATCH. The endpoint decides which kinds support which. */
const patchTypes: ReadonlySet<string> = new Set([
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  "application/apply-patch+yaml",
]);

/** YAML up to this size is parsed inline: even the worst document takes a few milliseconds. */
const maxInlineYamlBytes = 2048;

/** Creates a {@link BodyReader}. It starts a worker thread for larger YAML bodies. */
export function createBodyReader({ clock }: { readonly clock: Clock }): BodyReader {
  const limits = { maxDepth, maxValues };
  const worker = new YamlWorker(clock, limits);

  const parseYaml = async (text: string): Promise<ParsedText> => {
    // JSON is YAML and much faster to parse as JSON. A YAML flow mapping starts the same way.
    const json = /^\s*[{[]/.test(text) ? await takeSteps(tryParseJsonInSteps(text), text.length) : undefined;
    if (json !== undefined && !(json instanceof SyntaxError)) return json;
    const isSmall = text.length <= maxInlineYamlBytes;
    const result = isSmall ? yamlToJson(await import("yaml"), text, limits) : await worker.parse(text);
    return readYamlResult(result);
  };

  return {
    async read(request, { mergesDuplicates, isTyped }) {
      const announced = request.headers["content-length"];
      if (announced === undefined && request.headers["transfer-encoding"] === undefined) return noBody;
      if (Number(announced) > maxBodyBytes) throw tooLarge();
      const format = bodyFormat(request, isTyped, Number(announced) === 0);
      const bytes = await readBytes(request);
      if (bytes.length === 0) return noBody;
      if (format === "protobuf") {
        const { decodeProtobuf } = await import("../protobuf/decode.ts");
        return { value: decodeProtobuf(bytes), duplicateFields: [], bytes: bytes.length };
      }
      const text = decodeText(bytes);
      const parsed =
        format === "json" ? await takeSteps(parseJsonInSteps(text, mergesDuplicates), text.length) : await parseYaml(text);
      return { ...parsed, bytes: bytes.length };
    },
    close: () => worker.close(),
  };
}

function readYamlResult(result: YamlResult): ParsedText {
  switch (result.kind) {
    case "parsed":
      return { value: JSON.parse(result.json), duplicateFields: [], duplicateKeys: result.duplicateKeys };
    case "too-deep":
      throw tooDeep();
    case "too-many-values":
      throw tooManyValues();
    case "invalid":
      throw statusError("BadRequest", `the body of the request is not valid YAML: ${result.reason}`);
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function decodeText(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw statusError("BadRequest", "the body of the request is not valid UTF-8");
  }
}

const objectFormats: ReadonlyMap<string, "json" | "yaml" | "protobuf"> = new Map([
  ["application/json", "json"],
  ["application/yaml", "yaml"],
  ["application/vnd.kubernetes.protobuf", "protobuf"],
]);

/** A media type whose parameters all have values, as Go's `mime.ParseMediaType` requires. */
const mediaParameters = /^[^;]*(?:;\s*[\w!#$%&'*+.^`|~-]+\s*=\s*(?:[\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*")\s*)*;?$/;

function bodyFormat({ method, headers }: IncomingMessage, isTyped: boolean, isEmpty: boolean): "json" | "yaml" | "protobuf" {
  const contentType = headers["content-type"];
  const isMalformed = contentType !== undefined && !mediaParameters.test(contentType.trim());
  const mediaType = (contentType ?? "").split(";", 1)[0]?.trim() ?? "";
  if (method === "PATCH") {
    if (patchTypes.has(mediaType)) return mediaType.endsWith("yaml") ? "yaml" : "json";
    // Built-in kinds have routes for patches, which reject other types before anything reads them.
    if (isTyped) throw statusError("UnsupportedMediaType", "415: Unsupported Media Type", {});
    const accepted = [...patchTypes].filter((type) => !type.includes("strategic"));
    throw statusError("UnsupportedMediaType", `${unknownFormat}: ${accepted.join(", ")}`, {});
  }
  if (isEmpty || mediaType === "") return "json";
  const format = isMalformed ? undefined : objectFormats.get(mediaType.toLowerCase());
  if (format !== undefined) return format;
  throw statusError("UnsupportedMediaType", `${unknownFormat}: ${[...objectFormats.keys()].join(", ")}`);
}

const unknownFormat = "the body of the request was in an unknown format - accepted media types include";

function readBytes(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length <= maxBodyBytes) chunks.push(chunk);
      else {
        request.pause();
        reject(tooLarge());
      }
    });
    request.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, length)),
    );
    request.on("error", reject);
    request.on("close", () => {
      if (!request.complete) reject(new IncompleteRequestError());
    });
  });
}

/** The client closed the connection before its request was complete. */
class IncompleteRequestError extends Error {
  readonly code = "ECONNRESET";

  constructor() {
    super("the client disconnected before its request was complete");
    this.name = "IncompleteRequestError";
  }
}
