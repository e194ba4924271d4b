import pg from "pg";

/** How a client of an App connects. */
export interface ClientAddress {
  readonly host: string;
  readonly user: string;
  readonly password: string;
  /** Default `postgres`. */
  readonly database?: string;
}

/** A connection of a client of an App, without the settings of the agents. */
export class AppClient implements AsyncDisposable {
  readonly #client: pg.Client;

  private constructor(client: pg.Client) {
    this.#client = client;
    client.on("error", () => undefined);
  }

  static async open({ database = "postgres", ...address }: ClientAddress): Promise<AppClient> {
    const client = new pg.Client({ ...address, database, port: 5_432, connectionTimeoutMillis: 10_000, query_timeout: 10_000 });
    const opened = new AppClient(client);
    await client.connect();
    return opened;
  }

  /** Resolves to the rows of a statement. */
  async run(text: string): Promise<readonly unknown[]> {
    return (await this.#client.query<Record<string, unknown>>(text)).rows;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }
}

/** Resolves to the role that a client acts as; `rejected` if the server does not accept its password, and otherwise to the server's message. */
export async function roleOfClient(address: ClientAddress): Promise<string> {
  try {
    await using client = await AppClient.open(address);
    const [row] = await client.run("SELECT current_user::text AS role");
    return (row as { readonly role: string }).role;
  } catch (error) {
    return (error as { readonly code?: string }).code === "28P01" ? "rejected" : (error as Error).message;
  }
}
