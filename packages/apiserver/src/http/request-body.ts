import type { IncomingMessage } from "node:http";
import { type StatusError, statusError } from "@keelson/api-machinery";
import { maxDepth, type ParsedText, parseJson, requireJsonValue } from "./json-text.ts";

/** The longest body that is read: what kube-apiserver takes. */
export const maxBodyBytes = 3 * 1024 * 1024;

/** A body as it came, and the value it stands for; `value` is undefined when there is none. */
export interface RequestBody extends ParsedText {
  readonly bytes: number;
}

const noBody: RequestBody = { value: undefined, duplicateFields: [], bytes: 0 };

/** Media types of a PATCH; which kinds take which is the endpoint's matter. */
const patchTypes: ReadonlySet<string> = new Set([
  "application/json-patch+json",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
  "application/apply-patch+yaml",
]);

/**
 * Reads and parses the body of a request.
 *
 * @throws StatusError `RequestEntityTooLarge` beyond {@link maxBodyBytes}, `UnsupportedMediaType`, or `BadRequest` when it
 * is not what its media type says.
 */
export async function readBody(request: IncomingMessage): Promise<RequestBody> {
  const announced = request.headers["content-length"];
  if (announced === undefined && request.headers["transfer-encoding"] === undefined) return noBody;
  if (Number(announced) > maxBodyBytes) throw tooLarge();
  const bytes = await readBytes(request);
  if (bytes.length === 0) return noBody;
  const format = bodyFormat(request.method ?? "", request.headers["content-type"]);
  if (format === "protobuf") {
    const { decodeProtobuf } = await import("./protobuf/decode.ts");
    return { value: decodeProtobuf(bytes), duplicateFields: [], bytes: bytes.length };
  }
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw statusError("BadRequest", "the body of the request is not valid UTF-8");
  }
  const parsed = format === "json" || isJsonText(text) ? parseJson(text) : await parseYaml(text);
  return { ...parsed, bytes: bytes.length };
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function bodyFormat(method: string, contentType: string | undefined): "json" | "yaml" | "protobuf" {
  const mediaType = (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (method === "PATCH") {
    if (!patchTypes.has(mediaType)) {
      throw statusError(
        "UnsupportedMediaType",
        `the body of the request was in an unknown format - accepted media types include: ${[...patchTypes].join(", ")}`,
      );
    }
    return mediaType.endsWith("yaml") ? "yaml" : "json";
  }
  if (mediaType === "" || mediaType === "application/json") return "json";
  if (mediaType === "application/yaml") return "yaml";
  if (mediaType === "application/vnd.kubernetes.protobuf") return "protobuf";
  throw statusError(
    "UnsupportedMediaType",
    "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
  );
}

/** JSON is YAML, and much faster to read as what it is. A YAML flow mapping that is not JSON begins alike: then YAML reads it. */
function isJsonText(text: string): boolean {
  if (!/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

async function parseYaml(text: string): Promise<ParsedText> {
  const { isMap, isScalar, isSeq, parseDocument } = await import("yaml");
  const duplicateFields: string[] = [];
  /** Keys that occur twice in one map: of no matter to YAML's reader here, of which Kubernetes warns. */
  const findDuplicates = (node: unknown, path: string, depth: number): void => {
    if (depth > maxDepth) return;
    if (isSeq(node)) node.items.forEach((item, index) => findDuplicates(item, `${path}[${index}]`, depth + 1));
    if (!isMap(node)) return;
    const seen = new Set<string>();
    for (const { key, value: child } of node.items) {
      const name = String(isScalar(key) ? key.value : key);
      const at = path === "" ? name : `${path}.${name}`;
      if (seen.has(name)) duplicateFields.push(at);
      seen.add(name);
      findDuplicates(child, at, depth + 1);
    }
  };
  let value: unknown;
  try {
    const document = parseDocument(text, { merge: true, prettyErrors: false, strict: true, uniqueKeys: false });
    const [error] = document.errors;
    if (error !== undefined) throw error;
    value = document.toJS({ maxAliasCount: 100 });
    findDuplicates(document.contents, "", 0);
  } catch (error) {
    const reason = error instanceof RangeError ? "it nests too deep" : (error as Error).message;
    throw statusError("BadRequest", `the body of the request is not valid YAML: ${reason}`);
  }
  requireJsonValue(value);
  return { value, duplicateFields };
}

function tooLarge(): StatusError {
  return statusError("RequestEntityTooLarge", `Request entity too large: limit is ${maxBodyBytes}`);
}

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
      if (!request.complete) reject(new Error("the client went away before its request was complete"));
    });
  });
}
