import { createPrivateKey, X509Certificate } from "node:crypto";
import { jsonEquals, setOwn, statusError } from "@keelson/api-machinery";
import type { ConfigMapObject, SecretObject } from "@keelson/api-machinery/kinds";
import {
  configMapKeyFaults,
  forbiddenCause,
  invalidCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { ensureMap, mapAt, setField, textAt, valueAt } from "../../object-fields.ts";
import { pemBlocks } from "../../pem-blocks.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Read = ReceivedObject<SecretObject>;

/** ConfigMaps and Secrets. */
export function configKinds(): readonly ServedResource[] {
  return [configMaps, secrets];
}

const configMaps = builtinResource<ConfigMapObject>({
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  shortNames: ["cm"],
  scope: "Namespaced",
  columns: [column("Data", "The number of keys."), ageColumn],
  cells: (object, now) => [
    Object.keys(object.data ?? {}).length + Object.keys(object.binaryData ?? {}).length,
    age(object.metadata.creationTimestamp, now),
  ],
  strategy: {
    hasGeneration: false,
    prepareForCreate: (object) => requireBase64(object, "binaryData"),
    prepareForUpdate: (object) => requireBase64(object, "binaryData"),
    *validate(object) {
      const binary = object.binaryData ?? {};
      yield* keyCauses(object, "data");
      yield* keyCauses(object, "binaryData");
      for (const key of Object.keys(object.data ?? {})) {
        yield;
        if (Object.hasOwn(binary, key)) yield invalidCause(`data[${key}]`, key, "duplicate of key present in binaryData");
      }
      const bytes = textBytes(object.data ?? {}) + base64Bytes(binary);
      if (bytes > maxBytes) yield tooLong("");
    },
    validateUpdate: (object, old) => immutableCauses(object, old, ["data", "binaryData"]),
  },
});

const secrets = builtinResource<SecretObject>({
  group: "",
  version: "v1",
  kind: "Secret",
  plural: "secrets",
  scope: "Namespaced",
  columns: [column("Type", "The type, which determines the required keys."), column("Data", "The number of keys."), ageColumn],
  cells: (object, now) => [
    object.type ?? "",
    Object.keys(object.data ?? {}).length,
    age(object.metadata.creationTimestamp, now),
  ],
  selectableFields: { type: (object) => object.type ?? "" },
  strategy: {
    warnings: keyPairWarnings,
    hasGeneration: false,
    default: prepareSecret,
    *validate(object) {
      yield* keyCauses(object, "data");
      yield* typeCauses(object);
      if (base64Bytes(object.data ?? {}) > maxBytes) yield tooLong("data");
    },
    validateUpdate: (object, old) => {
      const causes = immutableCauses(object, old, ["data"]);
      if ((object.type ?? "") !== (old.type ?? "")) {
        causes.unshift(invalidCause("type", object.type ?? "", "field is immutable"));
      }
      return causes;
    },
  },
});

/** Merges the write-only `stringData` into `data` and removes it. */
function prepareSecret(object: DraftObject<SecretObject>): void {
  requireBase64(object, "data");
  const texts = object.stringData;
  if (texts !== undefined) {
    const data = ensureMap(object, "data");
    for (const [key, text] of Object.entries(object.stringData ?? {})) {
      if (typeof text === "string") setOwn(data, key, Buffer.from(text).toString("base64"));
    }
    setField(object, "stringData", undefined);
  }
  if ((object.type ?? "") === "") setField(object, "type", "Opaque");
}

/** Required keys of the known Secret types. */
const keysOfTypes: Readonly<Record<string, readonly string[]>> = {
  "kubernetes.io/dockercfg": [".dockercfg"],
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson"],
  "kubernetes.io/ssh-auth": ["ssh-privatekey"],
  "kubernetes.io/tls": ["tls.crt", "tls.key"],
};

/** Warns of a TLS Secret whose certificate and key do not belong together, with the messages of Go's TLS library. */
function keyPairWarnings(secret: Read): readonly string[] {
  if (secret.type !== "kubernetes.io/tls") return [];
  const textOf = (key: string): string => Buffer.from(textAt(secret, "data", key), "base64").toString();
  const [certificate, key] = [textOf("tls.crt"), textOf("tls.key")];
  const fault = pemFault(certificate, "certificate") ?? pemFault(key, "key");
  if (fault !== undefined) return [fault];
  try {
    const matches = new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
    return matches ? [] : ["tls: private key does not match public key"];
  } catch {
    return [];
  }
}

function pemFault(text: string, input: "certificate" | "key"): string | undefined {
  const types = pemBlocks(text).map(({ type }) => type);
  if (types.length === 0) return `tls: failed to find any PEM data in ${input} input`;
  if (input === "key" || types.includes("CERTIFICATE")) return undefined;
  const skipped = `[${types.join(" ")}]`;
  return `tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: ${skipped}`;
}

function* typeCauses(object: Read): Causes {
  const data = object.data ?? {};
  const type = object.type ?? "";
  if (type === "kubernetes.io/basic-auth" && !Object.hasOwn(data, "username") && !Object.hasOwn(data, "password")) {
    yield requiredCause("data[username]");
    yield requiredCause("data[password]");
    return;
  }
  if (type === "kubernetes.io/service-account-token") {
    const name = valueAt(object.metadata, "annotations", "kubernetes.io/service-account.name");
    yield* name === undefined || name === "" ? [requiredCause("metadata.annotations[kubernetes.io/service-account.name]")] : [];
    return;
  }
  const keys = Object.hasOwn(keysOfTypes, type) ? (keysOfTypes[type] ?? []) : [];
  yield* keys.filter((key) => !Object.hasOwn(data, key)).map((key) => requiredCause(`data[${key}]`));
  for (const key of keys.filter((name) => name.startsWith(".docker") && Object.hasOwn(data, name))) {
    yield;
    const text = Buffer.from(textAt(data, key), "base64").toString();
    if (!isJson(text)) yield invalidCause(`data[${key}]`, "<secret contents redacted>", "the content is not JSON");
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function* keyCauses(object: Read, field: string): Causes {
  yield* eachItem(Object.keys(mapAt(object, field)), (key) =>
    configMapKeyFaults(key).map((fault) => invalidCause(`${field}[${key}]`, key, fault)),
  );
}

function immutableCauses(object: Read, old: Read, fields: readonly string[]): StatusCause[] {
  if (old.immutable !== true) return [];
  const detail = "field is immutable when `immutable` is set";
  const causes: StatusCause[] = [];
  if (object.immutable !== true) causes.push(forbiddenCause("immutable", detail));
  for (const field of fields) {
    if (!jsonEquals(mapAt(object, field), mapAt(old, field))) causes.push(forbiddenCause(field, detail));
  }
  return causes;
}

const maxBytes = 1024 * 1024;

function tooLong(field: string): StatusCause {
  return { reason: "FieldValueTooLong", field, message: `Too long: may not be more than ${maxBytes} bytes` };
}

function textBytes(map: Readonly<Record<string, unknown>>): number {
  let bytes = 0;
  for (const value of Object.values(map)) if (typeof value === "string") bytes += Buffer.byteLength(value);
  return bytes;
}

function base64Bytes(map: Readonly<Record<string, unknown>>): number {
  let bytes = 0;
  for (const value of Object.values(map)) if (typeof value === "string") bytes += Buffer.byteLength(value, "base64");
  return bytes;
}

/** Padded base64 of the standard alphabet. Line breaks are ignored, as by Go's decoder. */
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Values that are not base64 cannot be decoded, so the request is bad rather than the object invalid. Also canonicalises values, as
 * decoding and encoding would, and drops null values.
 */
function requireBase64(object: DraftObject<SecretObject>, field: string): void {
  for (const [key, value] of Object.entries(mapAt(object, field))) {
    const text = typeof value === "string" ? value.replaceAll(/[\r\n]/g, "") : "";
    if (value !== null && (typeof value !== "string" || !base64.test(text))) {
      const why = `${field}[${key}]: illegal base64 data`;
      throw statusError("BadRequest", `${object.kind} in version "v1" cannot be handled as a ${object.kind}: ${why}`);
    }
    if (value !== text) setOwn(ensureMap(object, field), key, text);
  }
}
