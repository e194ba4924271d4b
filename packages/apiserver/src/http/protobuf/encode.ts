import type { JsonObject } from "@keelson/api-machinery";
import { BackwardWriter } from "./backward-writer.ts";
import { fieldsOf, messageName } from "./fields.ts";
import { encoderOf } from "./message-encoders.ts";

/** The prefix of a Kubernetes protobuf body. An `Unknown` message follows, which names the kind of its content. */
const magic = Buffer.from("k8s\0");

/** What names the kind of an object. */
export interface TypeMeta {
  readonly apiVersion: string;
  readonly kind: string;
}

/** Whether objects of a kind have a message. */
export function hasMessage({ apiVersion, kind }: TypeMeta): boolean {
  return fieldsOf(messageName(apiVersion, kind)) !== undefined;
}

/**
 * Encodes built-in kinds as kube-apiserver does, byte for byte: fields in the order of their numbers, map keys sorted, and zero values of
 * fields other than pointers in Go. It keeps its buffer, so one encoder is shared by all responses.
 */
export class ProtobufEncoder {
  readonly #writer = new BackwardWriter();

  /** Encodes an object with its envelope. Throws TypeError for a kind without a message, or a value that does not fit its field. */
  object(value: Readonly<JsonObject>, type: TypeMeta): Uint8Array {
    return this.#complete(() => {
      const writer = this.#writer;
      this.#emptyTail();
      const start = writer.length;
      encoderOf(messageName(type.apiVersion, type.kind))(writer, value);
      writer.close(2, start);
      this.#typeMeta(type);
    });
  }

  /** Encodes a `WatchEvent` with its length, the frame of a stream. `object` has its envelope. */
  frame(type: string, object: Uint8Array): Uint8Array {
    return this.#complete(() => {
      const writer = this.#writer;
      writer.raw(object);
      writer.close(1, 0);
      writer.close(2, 0);
      writer.text(1, type);
      const length = Buffer.alloc(4);
      length.writeUInt32BE(writer.length);
      writer.raw(length);
    });
  }

  /** Encodes items of a list as its fields. */
  items(type: TypeMeta, values: readonly Readonly<JsonObject>[]): Uint8Array {
    const encode = encoderOf(messageName(type.apiVersion, type.kind));
    return this.#complete(() => {
      for (let index = values.length - 1; index >= 0; index--) {
        const start = this.#writer.length;
        encode(this.#writer, values[index] ?? {});
        this.#writer.close(2, start);
      }
    });
  }

  /** What precedes the items of a list that take `itemBytes`, and what follows them. */
  listEnds(type: TypeMeta, metadata: Readonly<JsonObject>, itemBytes: number): { start: Uint8Array; end: Uint8Array } {
    const end = this.#complete(() => this.#emptyTail());
    const start = this.#complete(() => {
      const writer = this.#writer;
      encoderOf("meta.v1.ListMeta")(writer, metadata);
      writer.close(1, 0);
      writer.unsigned(writer.length + itemBytes);
      writer.tag(2, 2);
      this.#typeMeta(type);
    });
    return { start, end };
  }

  /** The empty encoding (3) and media type (4) of an `Unknown`. */
  #emptyTail(): void {
    this.#writer.text(4, "");
    this.#writer.text(3, "");
  }

  #typeMeta({ apiVersion, kind }: TypeMeta): void {
    const start = this.#writer.length;
    this.#writer.text(2, kind);
    this.#writer.text(1, apiVersion);
    this.#writer.close(1, start);
    this.#writer.raw(magic);
  }

  #complete(write: () => void): Uint8Array {
    this.#writer.reset();
    write();
    return this.#writer.take();
  }
}
