import { S3mini } from "s3mini";
import { Agent, fetch, type RequestInfo, type RequestInit } from "undici";
import { BackupError } from "./backup-error.ts";
import { type BackupStore, checkedPath } from "./backup-store.ts";

/** A bucket and the credentials for it. */
export interface S3Options {
  /** URL of the service, without the bucket: `https://s3.eu-central-1.amazonaws.com`. */
  readonly endpoint: string;
  readonly bucket: string;
  /** Default: auto. */
  readonly region?: string;
  /** Directory in the bucket, without slashes at its ends. Default: none. */
  readonly prefix?: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

type UploadedPart = Awaited<ReturnType<S3mini["uploadPart"]>>;

const mebibyte = 1 << 20;
/** Parts of 8 MiB, later of 64 MiB: S3 allows 10,000 parts, and memory holds one. */
const partLengthOf = (partNumber: number): number => (partNumber <= 1_000 ? 8 : 64) * mebibyte;

/** Stores backups in a bucket of an S3-compatible service. Large files are uploaded in parts. */
export class S3Store implements BackupStore {
  readonly #client: S3mini;
  readonly #prefix: string;

  constructor({ endpoint, bucket, region = "auto", prefix, accessKeyId, secretAccessKey }: S3Options) {
    const url = `${endpoint.replace(/\/+$/, "")}/${bucket}`;
    this.#client = new S3mini({ endpoint: url, region, accessKeyId, secretAccessKey, fetch: createFetch() });
    this.#prefix = prefix === undefined || prefix === "" ? "" : `${prefix}/`;
  }

  async write(path: string, data: AsyncIterable<Uint8Array>): Promise<void> {
    const key = this.#keyOf(path);
    await storing(key, async () => {
      const parts = partsOf(data)[Symbol.asyncIterator]();
      const [first, second] = [await parts.next(), await parts.next()];
      if (first.done === true || second.done === true) {
        await this.#client.putObject(key, first.value ?? Buffer.alloc(0));
        return;
      }
      const uploadId = await this.#client.getMultipartUploadId(key);
      let sentBytes = 0;
      const uploaded: UploadedPart[] = [];
      const upload = async (part: Buffer): Promise<void> => {
        sentBytes += part.length;
        uploaded.push(await this.#client.uploadPart(key, uploadId, part, uploaded.length + 1));
      };
      try {
        await upload(first.value);
        for (let next: IteratorResult<Buffer> = second; next.done !== true; next = await parts.next()) await upload(next.value);
        await this.#complete(key, uploadId, uploaded, sentBytes);
      } catch (error) {
        await this.#client.abortMultipartUpload(key, uploadId).catch(() => undefined);
        throw error;
      }
    });
  }

  /** S3 may answer with status 200 and an error, because it sends the status before it has joined the parts. */
  async #complete(key: string, uploadId: string, parts: readonly UploadedPart[], sentBytes: number): Promise<void> {
    const result = await this.#client.completeMultipartUpload(key, uploadId, [...parts]);
    if (!result.etag) throw new BackupError("Storage", `${key}: the upload was not completed: ${JSON.stringify(result)}`);
    const storedBytes = await this.#client.getContentLength(key);
    if (storedBytes !== sentBytes)
      throw new BackupError("Storage", `${key}: the stored object has ${storedBytes} bytes instead of ${sentBytes}`);
  }

  #keyOf(path: string): string {
    return checkedPath(this.#prefix + path);
  }

  async *read(path: string): AsyncGenerator<Uint8Array> {
    const key = this.#keyOf(path);
    const response = await storing(key, () => this.#client.getObjectResponse(key));
    if (response?.body === null || response === null) throw new BackupError("NotFound", `${path} not found`);
    try {
      for await (const chunk of response.body) yield chunk as Uint8Array;
    } catch (error) {
      throw new BackupError("Storage", `${key}: ${messageOf(error)}`, { cause: error });
    }
  }

  async list(folder: string): Promise<readonly string[]> {
    const prefix = `${this.#keyOf(folder)}/`;
    const objects = await storing(prefix, () => this.#client.listObjects("/", prefix));
    // A directory that does not exist is an empty list. Taking this for one would number the files of a log anew.
    if (objects === null) throw new BackupError("Storage", `${prefix}: the bucket was not found`);
    return objects.map(({ Key }) => Key.slice(prefix.length)).filter((name) => name !== "" && !name.includes("/"));
  }

  async removeFile(path: string): Promise<void> {
    const key = this.#keyOf(path);
    await storing(key, () => this.#client.deleteObject(key));
  }

  async remove(folder: string): Promise<void> {
    const prefix = `${this.#keyOf(folder)}/`;
    await storing(prefix, async () => {
      const objects = (await this.#client.listObjects("/", prefix)) ?? [];
      for (const { Key } of objects) await this.#client.deleteObject(Key);
    });
  }
}

/**
 * A fetch with a dispatcher of the same version. The fetch of Node.js uses the global dispatcher, which another module may have replaced
 * by that of a later undici. The two disagree about the content length, and every upload would fail.
 */
function createFetch(): typeof globalThis.fetch {
  const dispatcher = new Agent();
  const send = (input: RequestInfo, init?: RequestInit) => fetch(input, { ...init, dispatcher });
  return send as unknown as typeof globalThis.fetch;
}

/** Converts errors of the client. An error of the data that is stored is passed on. */
async function storing<T>(key: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof BackupError) throw error;
    throw new BackupError("Storage", `${key}: ${messageOf(error)}`, { cause: error });
  }
}

const messageOf = (error: unknown): string => {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
};

/** Collects a stream into parts. */
async function* partsOf(data: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let pending: Uint8Array[] = [];
  let size = 0;
  let partNumber = 1;
  for await (const chunk of data) {
    pending.push(chunk);
    size += chunk.length;
    for (let length = partLengthOf(partNumber); size >= length; length = partLengthOf(partNumber)) {
      const joined = Buffer.concat(pending);
      yield joined.subarray(0, length);
      partNumber += 1;
      pending = [joined.subarray(length)];
      size -= length;
    }
  }
  if (size > 0) yield Buffer.concat(pending);
}
