import { SandboxError } from "./sandbox-error.ts";

/** Credentials of the cluster, for a server that authenticates its callers by them. */
export interface ClusterCredentials {
  /** The bearer token of the next call; undefined with a client certificate. */
  readonly token: () => Promise<string | undefined>;
  /** A client certificate and its key, in PEM. */
  readonly cert?: string;
  readonly key?: string;
}

/** The environment that credentials are read from. */
export interface CredentialEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile: (path: string) => Promise<string>;
  /** Runs a program without a shell. Resolves to its standard output; rejects like `execFile`. */
  readonly run: (file: string, args: readonly string[], env: Readonly<Record<string, string>>) => Promise<string>;
  readonly now: () => number;
}

const podTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/** A token of a plugin is replaced this long before it expires. */
const leewayMs = 10_000;

/**
 * The credentials of the Pod's service account, else those of the current context of the kubeconfig, as `kubectl` reads it.
 *
 * **Errors**: `Unauthenticated` if there are none.
 */
export async function findClusterCredentials(environment: CredentialEnvironment): Promise<ClusterCredentials> {
  const { env, readFile } = environment;
  // Unlike kubectl, ~/.kube/config does not override the Pod's service account; KUBECONFIG does.
  if (env.KUBERNETES_SERVICE_HOST && !env.KUBECONFIG) return { token: () => readToken(readFile, podTokenFile) };
  const user = await readKubeconfigUser(environment);
  if (user.as !== undefined) throw unauthenticated("impersonation (as) is not supported");
  const { token, tokenFile } = user;
  // As in client-go: a file with a token takes precedence.
  if (isText(tokenFile))
    return {
      token: async () => {
        const read = readToken(readFile, tokenFile);
        return isText(token)
          ? read.then(
              (text) => text || token,
              () => token,
            )
          : read;
      },
    };
  if (isText(token)) return { token: () => Promise.resolve(token) };
  if (user.exec !== undefined && user.exec !== null) return pluginCredentials(fieldsOf(user.exec), environment);
  const [cert, key] = [decode(user["client-certificate-data"]), decode(user["client-key-data"])];
  if (cert === undefined || key === undefined) throw unauthenticated("it has neither a token nor a client certificate");
  return { token: () => Promise.resolve(undefined), cert, key };
}

type Fields = Readonly<Record<string, unknown>>;

/** Asks kubectl, which merges the files of KUBECONFIG and inlines the files of certificates. */
async function readKubeconfigUser({ run }: CredentialEnvironment): Promise<Fields> {
  let output: string;
  try {
    output = await run("kubectl", ["config", "view", "--raw", "--minify", "--flatten", "-o", "json"], {});
  } catch (error) {
    const message = `no credentials: set KEELSON_SANDBOX_TOKEN or KEELSON_SANDBOX_TOKEN_FILE, or install kubectl and select a context`;
    // The error itself has the output, which may contain secrets.
    throw new SandboxError("Unauthenticated", `${message}: ${messageOf(error)}`);
  }
  const config = fieldsOf(parse(output));
  const [user] = Array.isArray(config.users) ? config.users : [];
  return fieldsOf(fieldsOf(user).user);
}

/**
 * Credentials of a program (client.authentication.k8s.io ExecCredential). It runs again when its token expires; a client certificate is
 * not renewed.
 */
async function pluginCredentials(exec: Fields, { run, now }: CredentialEnvironment): Promise<ClusterCredentials> {
  const { apiVersion, command, args, env } = exec;
  if (!isText(command)) throw unauthenticated("exec.command is missing");
  const info = JSON.stringify({ apiVersion, kind: "ExecCredential", spec: { interactive: false } });
  const variables = listOf(env).map((each) => [String(fieldsOf(each).name), String(fieldsOf(each).value)]);
  const request = async () => {
    const environment = { ...Object.fromEntries(variables), KUBERNETES_EXEC_INFO: info };
    const output = await run(command, listOf(args).map(String), environment).catch((error: unknown) => {
      // The error itself has the arguments and the output, which may contain secrets.
      throw unauthenticated(`${command} ${programFailure(error)}`);
    });
    const status = fieldsOf(fieldsOf(parse(output)).status);
    const expiresAt = Date.parse(String(status.expirationTimestamp));
    return { status, expiresAt: Number.isNaN(expiresAt) ? Number.POSITIVE_INFINITY : expiresAt };
  };
  let current = await request();
  const { clientCertificateData: cert, clientKeyData: key, token } = current.status;
  if (!isText(token) && !(isText(cert) && isText(key)))
    throw unauthenticated(`${command} printed neither a token nor a client certificate`);
  let renewal: Promise<void> | undefined;
  const renew = async (): Promise<void> => {
    try {
      current = await request();
    } finally {
      renewal = undefined;
    }
  };
  return {
    token: async () => {
      if (!isText(token)) return undefined;
      // Concurrent calls share one run.
      if (now() >= current.expiresAt - leewayMs) await (renewal ??= renew());
      return isText(current.status.token) ? current.status.token : undefined;
    },
    ...(isText(cert) && isText(key) && { cert, key }),
  };
}

async function readToken(readFile: CredentialEnvironment["readFile"], file: string): Promise<string> {
  try {
    return (await readFile(file)).trim();
  } catch (error) {
    throw new SandboxError("Unauthenticated", `could not read the token in ${file}: ${messageOf(error)}`, { cause: error });
  }
}

const unauthenticated = (problem: string): SandboxError =>
  new SandboxError("Unauthenticated", `the user of the kubeconfig cannot be used: ${problem}; set KEELSON_SANDBOX_TOKEN`);

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

const decode = (value: unknown): string | undefined => (isText(value) ? atob(value) : undefined);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Why a program failed, without its arguments and output. */
function programFailure(error: unknown): string {
  const { code, killed, signal } = fieldsOf(error);
  if (typeof code === "number") return `failed with exit status ${code}`;
  if (isText(code)) return `could not be run: ${code}`;
  if (killed === true) return "did not exit in time";
  return isText(signal) ? `was ended by ${signal}` : "could not be run";
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
