import { isDuration } from "../values/duration.ts";
import { isDns1123LabelName, isDns1123SubdomainName } from "../values/names.ts";

const ipv4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

type Check = (text: string) => boolean;

const pattern =
  (expression: RegExp): Check =>
  (text) =>
    expression.test(text);

/** Whether kube-apiserver validates a format of texts. */
export function isKnownFormat(format: string): boolean {
  return Object.hasOwn(formats, format) || format === "password";
}

/**
 * The string formats that kube-apiserver validates (apiextensions/v1 `format`); other formats are ignored. Every expression
 * here matches in linear time.
 */
const formats: Readonly<Record<string, Check>> = {
  "date-time": isDateTime,
  datetime: isDateTime,
  date: (text) => /^\d{4}-\d\d-\d\d$/.test(text) && isDateTime(`${text}T00:00:00Z`),
  duration: isDurationFormat,
  byte: (text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
  uri: isUri,
  email: pattern(/^[^\s@<>(),;:"[\]\\]{1,64}@[^\s@<>(),;:"[\]\\]{1,255}$/),
  hostname: isHostname,
  ipv4: pattern(ipv4),
  ipv6: isIpv6,
  cidr: isCidr,
  mac: pattern(/^(?:[\da-fA-F]{2}([:-])(?:[\da-fA-F]{2}\1){4}[\da-fA-F]{2}|(?:[\da-fA-F]{4}\.){2}[\da-fA-F]{4})$/),
  uuid: pattern(/^[\da-f]{8}-?[\da-f]{4}-?[\da-f]{4}-?[\da-f]{4}-?[\da-f]{12}$/i),
  uuid3: pattern(/^[\da-f]{8}-?[\da-f]{4}-?3[\da-f]{3}-?[\da-f]{4}-?[\da-f]{12}$/i),
  uuid4: pattern(/^[\da-f]{8}-?[\da-f]{4}-?4[\da-f]{3}-?[89ab][\da-f]{3}-?[\da-f]{12}$/i),
  uuid5: pattern(/^[\da-f]{8}-?[\da-f]{4}-?5[\da-f]{3}-?[89ab][\da-f]{3}-?[\da-f]{12}$/i),
  hexcolor: pattern(/^#?(?:[\da-fA-F]{3}|[\da-fA-F]{6})$/),
  bsonobjectid: pattern(/^[\da-fA-F]{24}$/),
  isbn: (text) => isIsbn10(text) || isIsbn13(text),
  isbn10: isIsbn10,
  isbn13: isIsbn13,
  "k8s-short-name": isDns1123LabelName,
  "k8s-long-name": isDns1123SubdomainName,
};

/** Reports whether `text` has the string format. A format that Kubernetes does not validate accepts every text. */
export function hasFormat(format: string, text: string): boolean {
  if (!Object.hasOwn(formats, format)) return true;
  return formats[format]?.(text) ?? true;
}

/** Reports whether `value` is in the range of the integer format; only `int32` has one. */
export function isInFormatRange(format: string, value: number): boolean {
  if (format === "int32") return value >= -2147483648 && value <= 2147483647;
  if (format === "int64") return value >= -(2 ** 63) && value <= 2 ** 63;
  return true;
}

function isDateTime(text: string): boolean {
  const match = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,]\d{1,9})?(?:[Zz]|[+-](\d\d):(\d\d))$/.exec(text);
  if (!match) return false;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, zoneHour = 0, zoneMinute = 0] = match
    .slice(1)
    .map((part) => Number(part ?? 0));
  const days = new Date(Date.UTC(year === 0 ? 400 : year, month, 0)).getUTCDate();
  return (
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    day <= days &&
    hour < 24 &&
    minute < 60 &&
    second < 60 &&
    zoneHour < 25 &&
    zoneMinute < 60
  );
}

function isDurationFormat(text: string): boolean {
  return (
    isDuration(text) ||
    /^\d+(?:\.\d+)?\s*(?:nanos(?:econds?)?|micros(?:econds?)?|millis(?:econds?)?|second(?:s)?|sec|minutes?|mins?|hours?|hr|days?|d|weeks?|w)$/i.test(
      text,
    )
  );
}

function isUri(text: string): boolean {
  // Go's url.ParseRequestURI: an absolute URI, or an absolute path.
  if (text.startsWith("/")) return !/[\s\p{Cc}]/u.test(text);
  return /^[A-Za-z][A-Za-z0-9+.-]*:\S+$/.test(text) && URL.canParse(text);
}

function isHostname(text: string): boolean {
  if (text.length > 255) return false;
  return text.split(".").every((label) => label.length <= 63 && /^[\p{L}\p{N}](?:[\p{L}\p{N}-]*[\p{L}\p{N}])?$/u.test(label));
}

function isIpv6(text: string): boolean {
  if (text.length > 45 || !text.includes(":")) return false;
  let groups = text;
  const tail = text.slice(text.lastIndexOf(":") + 1);
  if (tail.includes(".")) {
    if (!ipv4.test(tail)) return false;
    groups = `${text.slice(0, text.lastIndexOf(":") + 1)}0:0`;
  }
  const halves = groups.split("::");
  if (halves.length > 2) return false;
  const parts = halves.flatMap((half) => (half === "" ? [] : half.split(":")));
  if (!parts.every((part) => /^[\da-fA-F]{1,4}$/.test(part))) return false;
  return halves.length === 2 ? parts.length < 8 : parts.length === 8;
}

function isCidr(text: string): boolean {
  const match = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text);
  const address = match?.[1] ?? "";
  const bits = Number(match?.[2] ?? Infinity);
  return (ipv4.test(address) && bits <= 32) || (isIpv6(address) && bits <= 128);
}

function isIsbn10(text: string): boolean {
  const digits = text.replace(/[\s-]/g, "");
  if (!/^\d{9}[\dX]$/.test(digits)) return false;
  return Array.from(digits).reduce((sum, char, index) => sum + (10 - index) * (char === "X" ? 10 : Number(char)), 0) % 11 === 0;
}

function isIsbn13(text: string): boolean {
  const digits = text.replace(/[\s-]/g, "");
  return (
    /^97[89]\d{10}$/.test(digits) &&
    Array.from(digits).reduce((sum, char, index) => sum + Number(char) * (index % 2 === 0 ? 1 : 3), 0) % 10 === 0
  );
}
