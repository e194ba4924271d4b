import { setMaxListeners } from "node:events";
import { type DeepReadonly, isNotFound, isStatusError, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { Informer } from "@keelson/controller/informer";
import type { Flag, FlagDefinition } from "../flags.ts";
import type { CommandContext } from "../operator.ts";
import { formatObjects, type TypedObject } from "./format-result.ts";
import { allNamespacesFlag, listNamespace, selectorFlag, watchFlag } from "./list-flags.ts";
import { objectsOutputFlag } from "./output-format.ts";
import { TableWriter } from "./render-table.ts";

/** The objects of a list, as its columns see them. */
export type ListedObject = DeepReadonly<KubernetesObject>;

/** What a command lists, and how. */
export interface ObjectList {
  readonly types: readonly ResourceType[];
  /** Kinds that are listed too if the cluster has them and the user may read them. */
  readonly optionalTypes?: readonly ResourceType[];
  /** `--namespace` of the command. */
  readonly namespaceFlag: Flag<string>;
  /** Headings of the columns after NAMESPACE, which `--all-namespaces` adds, and NAME. */
  readonly columns: readonly string[];
  /** Reads what else the cells need, and returns the cells of an object. */
  readonly cells: (
    client: Client,
    scope: { readonly namespace: string | undefined; readonly signal: AbortSignal },
  ) => Promise<(object: ListedObject) => readonly string[]>;
  /** Which of the objects are listed. Default: all. */
  readonly includes?: (object: ListedObject) => boolean;
  /** Orders the objects. Default: as the server does. */
  readonly compare?: (a: ListedObject, b: ListedObject) => number;
  /** Printed if the list is empty: what to do next. */
  readonly empty: (namespace: string | undefined) => string;
}

/** The flags of a command that calls {@link listObjects}: the same for every kind. */
export function listFlagsOf(namespaceFlag: Flag<string>): readonly FlagDefinition[] {
  return [namespaceFlag, allNamespacesFlag, selectorFlag, watchFlag, objectsOutputFlag];
}

/** Runs a command that lists objects, and with `--watch` prints their changes until the signal aborts. Resolves to the exit status. */
export async function listObjects(context: CommandContext, list: ObjectList): Promise<number> {
  const client = await context.client();
  try {
    const printer = new ObjectPrinter(context, list, client);
    const known = await printer.printList();
    if (watchFlag.read(context.flags)) await watchObjects(context, { list, client, known, printer });
    return 0;
  } finally {
    await client.close();
  }
}

class ObjectPrinter {
  readonly #context: CommandContext;
  readonly #list: ObjectList;
  readonly #client: Client;
  readonly #namespace: string | undefined;
  readonly #table = new TableWriter();
  /** The kinds that the user can list. */
  readonly #types: ResourceType[];
  #hasHeading = false;

  constructor(context: CommandContext, list: ObjectList, client: Client) {
    this.#types = [...list.types];
    this.#context = context;
    this.#list = list;
    this.#client = client;
    this.#namespace = listNamespace(context.flags, list.namespaceFlag);
  }

  /** The kinds that the user can list, after {@link printList}. */
  get types(): readonly ResourceType[] {
    return this.#types;
  }

  /** Prints the present objects and returns them. */
  async printList(): Promise<readonly TypedObject[]> {
    const { flags, stdout, stderr } = this.#context;
    const format = objectsOutputFlag.read(flags);
    const isWatch = watchFlag.read(flags);
    const found = await this.#read();
    if (found.length === 0 && format.kind === "table") {
      (isWatch ? stderr : stdout).write(`${this.#list.empty(this.#namespace)}\n`);
      return found;
    }
    if (isWatch && format.kind !== "table" && format.kind !== "name") {
      for (const each of found) stdout.write(formatObjects(format, [each], { table: () => "", isSingle: true }));
      return found;
    }
    const table = format.kind === "table" ? await this.#rows(found) : "";
    stdout.write(formatObjects(format, found, { table: () => table }));
    return found;
  }

  /** Prints one changed object. */
  async printChange(change: TypedObject): Promise<void> {
    const format = objectsOutputFlag.read(this.#context.flags);
    const table = format.kind === "table" ? await this.#rows([change]) : "";
    const separator = format.kind === "yaml" ? "---\n" : "";
    this.#context.stdout.write(separator + formatObjects(format, [change], { table: () => table, isSingle: true }));
  }

  async #read(): Promise<readonly TypedObject[]> {
    const { types, optionalTypes = [], includes = () => true, compare } = this.#list;
    const labelSelector = selectorFlag.read(this.#context.flags);
    const options = { namespace: this.#namespace, labelSelector, signal: this.#context.signal };
    const read = async (type: ResourceType): Promise<readonly TypedObject[]> => {
      const { items } = await this.#client.list(type, options);
      return items.filter(includes).map((object) => ({ type, object }));
    };
    const readOptional = async (type: ResourceType): Promise<readonly TypedObject[]> => {
      try {
        const found = await read(type);
        this.#types.push(type);
        return found;
      } catch (error) {
        if (isNotFound(error) || isStatusError(error, "Forbidden")) return [];
        throw error;
      }
    };
    const found = (await Promise.all([...types.map(read), ...optionalTypes.map(readOptional)])).flat();
    return compare === undefined ? found : found.sort((a, b) => compare(a.object, b.object));
  }

  async #rows(objects: readonly TypedObject[]): Promise<string> {
    const cells = await this.#list.cells(this.#client, { namespace: this.#namespace, signal: this.#context.signal });
    const isAll = this.#namespace === undefined;
    const heading = [...(isAll ? ["NAMESPACE"] : []), "NAME", ...this.#list.columns];
    const rows = objects.map(({ object }) => [
      ...(isAll ? [object.metadata.namespace ?? ""] : []),
      object.metadata.name ?? "",
      ...cells(object),
    ]);
    const first = this.#hasHeading ? [] : [heading];
    this.#hasHeading = true;
    return this.#table.write([...first, ...rows]);
  }
}

interface WatchedList {
  readonly list: ObjectList;
  readonly client: Client;
  /** The objects that are already printed. */
  readonly known: readonly TypedObject[];
  readonly printer: ObjectPrinter;
}

/** Prints every object that differs from those in `known`, and each one that is deleted, until the signal aborts. */
async function watchObjects(context: CommandContext, { list, client, known, printer }: WatchedList): Promise<void> {
  const { flags, clock, log, signal } = context;
  const { namespaceFlag, includes = () => true } = list;
  const namespace = listNamespace(flags, namespaceFlag);
  const labelSelector = selectorFlag.read(flags);
  const versions = new Map(known.map(({ object }) => [object.metadata.uid, object.metadata.resourceVersion]));
  let printed = Promise.resolve();
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  // Every informer and its requests listen to the same signal.
  setMaxListeners(0, stop);
  const show = (change: TypedObject): void => {
    printed = printed.then(() => printer.printChange(change)).catch((error: unknown) => failed.abort(error));
  };
  const put = (type: ResourceType, object: ListedObject): void => {
    const { uid, resourceVersion } = object.metadata;
    if (versions.get(uid) === resourceVersion) return;
    versions.set(uid, resourceVersion);
    if (includes(object)) show({ type, object });
  };
  const running = printer.types.map((type) =>
    new Informer({
      ...{ client, type, namespace, clock, log, random: () => 0.5 },
      selection: labelSelector === undefined ? {} : { labelSelector },
      onEffect(effect) {
        if (effect.kind === "replace") for (const object of effect.objects) put(type, object);
        else if (effect.kind === "put") put(type, effect.object);
        else if (versions.delete(effect.object.metadata.uid)) show({ type, object: effect.object });
      },
    }).run(stop),
  );
  await Promise.allSettled(running);
  await printed;
  if (failed.signal.aborted && !signal.aborted) throw failed.signal.reason;
}
