import { GrpcConnection, bytesField } from "./grpc-connection.ts";
import { HttpConnection, type HttpTarget } from "./http-connection.ts";
import { payload } from "../load.ts";

/** A server under load. Plain data, so that it can be passed to another process. */
export type Service =
  | { readonly kind: "kubernetes"; readonly target: HttpTarget }
  | { readonly kind: "etcd"; readonly url: string };

/** One client of a service, with its own connection. */
export interface ServiceClient {
  /** Creates an object of 2 KB. */
  create(name: string): Promise<unknown>;
  /** Reads all objects. Returns the size of the response. */
  list(): Promise<number>;
  /** Opens a watch of all objects from now on. */
  watch(onEvents: (count: number) => void): Promise<void>;
  close(): void;
}

/** Connects a client. */
export async function connectService(service: Service): Promise<ServiceClient> {
  return service.kind === "etcd" ? etcdClient(service.url) : kubernetesClient(service.target);
}

const collection = "/api/v1/namespaces/default/configmaps";

async function kubernetesClient(target: HttpTarget): Promise<ServiceClient> {
  const connection = await HttpConnection.open(target);
  return {
    create(name) {
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "default", name }, data: { text: payload } };
      return connection.request("POST", `${collection}?fieldManager=bench`, JSON.stringify(object));
    },
    list: async () => (await connection.request("GET", collection)).bodyBytes,
    watch: (onEvents) =>
      connection.watch(`${collection}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan`, onEvents),
    close: () => connection.close(),
  };
}

const prefix = Buffer.from("objects/");
/** The first key after those with the prefix. */
const prefixEnd = Buffer.from("objects0");

function etcdClient(url: string): ServiceClient {
  const connection = new GrpcConnection(url);
  const range = Buffer.concat([bytesField(1, prefix), bytesField(2, prefixEnd)]);
  return {
    create(name) {
      const value = JSON.stringify({ name, text: payload.padEnd(2_000, "x") });
      const put = [bytesField(1, Buffer.from(`objects/${name}`)), bytesField(2, Buffer.from(value))];
      return connection.call("/etcdserverpb.KV/Put", Buffer.concat(put));
    },
    list: () => connection.call("/etcdserverpb.KV/Range", range),
    watch: (onEvents) => connection.watch(bytesField(1, range), onEvents),
    close: () => connection.close(),
  };
}
