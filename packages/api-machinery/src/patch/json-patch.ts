import { jsonEquals, setOwn } from "../objects/json.ts";
import { statusError, type StatusError } from "../protocol/status.ts";

type Container = unknown[] | Record<string, unknown>;

const maxOperations = 10_000;
/** The maximum growth by copies, as in kube-apiserver. Otherwise a short patch could double an object 10,000 times. */
const maxCopyBytes = 3 * 1024 * 1024;

/**
 * Applies a JSON Patch (RFC 6902) and returns the new value. The arguments are not changed; unchanged parts are shared with
 * `target`.
 *
 * As in kube-apiserver, `test` for null succeeds for a missing value, and a negative index counts from the end of a list.
 *
 * **Errors**: a `StatusError`: BadRequest if `operations` is not a list of objects, RequestEntityTooLarge above 10,000
 * operations or 3 MiB of copies, Invalid (422) if an operation cannot be applied.
 */
export function jsonPatch(target: unknown, operations: unknown): unknown {
  if (!Array.isArray(operations)) {
    throw statusError("BadRequest", `json: cannot unmarshal ${goKind(operations)} into Go value of type jsonpatch.Patch`);
  }
  if (operations.length > maxOperations) {
    const message = `The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`;
    throw statusError("RequestEntityTooLarge", message);
  }
  const document = new PatchedDocument(target);
  for (const operation of operations as unknown[]) {
    if (typeof operation !== "object" || operation === null || Array.isArray(operation)) {
      throw statusError("BadRequest", `json: cannot unmarshal ${goKind(operation)} into Go value of type jsonpatch.Operation`);
    }
    document.apply(operation as Record<string, unknown>);
  }
  return document.value;
}

function goKind(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "boolean") return "bool";
  return value === null || value === undefined ? "null" : typeof value;
}

function refusal(detail: string): StatusError {
  return statusError("Invalid", `the server rejected our request due to an error in our request: ${detail}`);
}

/** Splits a JSON pointer (RFC 6901). */
function parsePointer(pointer: string, name: string): string[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/"))
    throw refusal(`${name} ${JSON.stringify(pointer)} is not a JSON pointer: it has to begin with "/"`);
  return pointer
    .slice(1)
    .split("/")
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** A value being changed. Containers that this class created are changed in place; others are copied first. */
class PatchedDocument {
  value: unknown;
  readonly #own = new WeakSet<object>();
  #copiedBytes = 0;

  constructor(value: unknown) {
    this.value = value;
  }

  apply(operation: Record<string, unknown>): void {
    const kind = Object.hasOwn(operation, "op") ? operation.op : undefined;
    const path = this.#pointerOf(operation, "path");
    switch (kind) {
      case "add":
        this.#add(path, valueOf(operation, "add", path), "add");
        return;
      case "remove":
        this.#remove(path, "remove");
        return;
      case "replace":
        this.#replace(path, valueOf(operation, "replace", path));
        return;
      case "move": {
        const from = this.#pointerOf(operation, "from");
        if (path.length > from.length && from.every((token, index) => token === path[index])) {
          throw refusal(`move operation does not apply: ${pointer(from)} cannot be moved into itself`);
        }
        const value = this.#get(from, "move");
        this.#remove(from, "move");
        this.#add(path, value, "move");
        return;
      }
      case "copy":
        this.#add(path, this.#copyOf(this.#get(this.#pointerOf(operation, "from"), "copy")), "copy");
        return;
      case "test": {
        const wanted = Object.hasOwn(operation, "value") ? operation.value : null;
        if (!jsonEquals(this.#find(path) ?? null, wanted)) throw refusal(`testing value ${pointer(path)} failed: test failed`);
        return;
      }
      default:
        throw refusal(`Unexpected kind: ${typeof kind === "string" ? kind : JSON.stringify(kind ?? null)}`);
    }
  }

  #pointerOf(operation: Record<string, unknown>, name: "path" | "from"): string[] {
    const value = Object.hasOwn(operation, name) ? operation[name] : undefined;
    if (typeof value !== "string") throw refusal(`operation missing ${name} field`);
    return parsePointer(value, name);
  }

  #find(path: readonly string[]): unknown {
    let value = this.value;
    for (const token of path) {
      if (typeof value !== "object" || value === null) return undefined;
      if (Array.isArray(value)) {
        const index = indexOf(token, value.length);
        value = index === undefined ? undefined : (value as unknown[])[index];
      } else value = Object.hasOwn(value, token) ? (value as Record<string, unknown>)[token] : undefined;
    }
    return value;
  }

  #get(path: readonly string[], kind: string): unknown {
    const value = this.#find(path);
    if (value === undefined) throw missing(kind, path);
    return value;
  }

  /** Returns the container that `path` points into, ready to be changed in place. */
  #container(path: readonly string[], kind: string): Container {
    let value = this.value;
    let place = (replacement: Container): void => {
      this.value = replacement;
    };
    for (let depth = 0; ; depth++) {
      if (typeof value !== "object" || value === null) {
        throw refusal(`${kind} operation does not apply: doc is missing path: ${JSON.stringify(pointer(path))}: missing value`);
      }
      const container = this.#owned(value as Container);
      if (container !== value) place(container);
      const token = path[depth];
      if (token === undefined || depth === path.length - 1) return container;
      if (Array.isArray(container)) {
        const index = indexOf(token, container.length);
        value = index === undefined ? undefined : container[index];
        place = (replacement) => {
          if (index !== undefined) container[index] = replacement;
        };
      } else {
        value = Object.hasOwn(container, token) ? container[token] : undefined;
        place = (replacement) => setOwn(container, token, replacement);
      }
    }
  }

  #owned(container: Container): Container {
    if (this.#own.has(container)) return container;
    const copy: Container = Array.isArray(container) ? container.slice() : { ...container };
    this.#own.add(copy);
    return copy;
  }

  #add(path: readonly string[], value: unknown, kind: string): void {
    const last = path.at(-1);
    if (last === undefined) {
      this.value = value;
      return;
    }
    const container = this.#container(path, kind);
    if (!Array.isArray(container)) {
      setOwn(container, last, value);
      return;
    }
    const index = last === "-" ? container.length : indexOf(last, container.length + 1);
    if (index === undefined) throw badIndex(kind, path);
    container.splice(index, 0, value);
  }

  #remove(path: readonly string[], kind: string): void {
    const last = path.at(-1);
    if (last === undefined) throw refusal(`${kind} operation does not apply: the whole document cannot be removed`);
    const container = this.#container(path, kind);
    if (Array.isArray(container)) {
      const index = indexOf(last, container.length);
      if (index === undefined) throw badIndex(kind, path);
      container.splice(index, 1);
    } else {
      if (!Object.hasOwn(container, last)) throw missing(kind, path);
      delete container[last];
    }
  }

  #replace(path: readonly string[], value: unknown): void {
    const last = path.at(-1);
    if (last === undefined) {
      this.value = value;
      return;
    }
    const container = this.#container(path, "replace");
    if (Array.isArray(container)) {
      const index = indexOf(last, container.length);
      if (index === undefined) throw badIndex("replace", path);
      container[index] = value;
    } else {
      if (!Object.hasOwn(container, last)) throw missing("replace", path);
      setOwn(container, last, value);
    }
  }

  /** Copies deeply, so that a later change in place affects one location only. */
  #copyOf(value: unknown): unknown {
    const text = JSON.stringify(value);
    this.#copiedBytes += Buffer.byteLength(text);
    if (this.#copiedBytes > maxCopyBytes) {
      const message = `Unable to copy, the accumulated size increase of copy is ${this.#copiedBytes}, exceeding the limit ${maxCopyBytes}`;
      throw statusError("RequestEntityTooLarge", message);
    }
    return JSON.parse(text);
  }
}

function valueOf(operation: Record<string, unknown>, kind: string, path: readonly string[]): unknown {
  if (!Object.hasOwn(operation, "value")) throw refusal(`${kind} operation at ${pointer(path)} is missing its value`);
  return operation.value;
}

function indexOf(token: string, length: number): number | undefined {
  if (!/^(?:0|-?[1-9]\d{0,8})$/.test(token)) return undefined;
  const index = Number(token) < 0 ? Number(token) + length : Number(token);
  return index >= 0 && index < length ? index : undefined;
}

function pointer(path: readonly string[]): string {
  return path.map((token) => `/${token.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function missing(kind: string, path: readonly string[]): StatusError {
  return refusal(`${kind} operation does not apply: doc is missing key: ${pointer(path)}: missing value`);
}

function badIndex(kind: string, path: readonly string[]): StatusError {
  return refusal(`${kind} operation does not apply: Unable to access invalid index: ${path.at(-1)}: invalid index referenced`);
}
