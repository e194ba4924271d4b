import { decodeJournalRecord, journalMagic, type JournalRecord } from "./journal-record.ts";

/** A record and where it is. */
export interface ScannedRecord {
  readonly file: string;
  readonly offset: number;
  readonly end: number;
  readonly record: JournalRecord;
}

/**
 * Finds all complete records of a journal file, including those after damaged bytes: a torn tail has no newer record after it, damage may
 * have. Leftovers of an earlier use of the file are included.
 */
export function scanJournal(file: string, content: Buffer): readonly ScannedRecord[] {
  const records: ScannedRecord[] = [];
  for (let offset = 0; offset >= 0 && offset < content.length; ) {
    const found = decodeJournalRecord(content, offset);
    if (found === undefined) offset = content.indexOf(journalMagic, offset + 1);
    else {
      records.push({ file, offset, end: found.end, record: found.record });
      offset = found.end;
    }
  }
  return records;
}
