-- Operators also decide about months that jura-ng published, and about months under a former name of the site.
ALTER TABLE AcceptedDecreases ADD COLUMN Decision TEXT NOT NULL DEFAULT 'lower';
ALTER TABLE HeldMonths ADD COLUMN Remedy TEXT NOT NULL DEFAULT '';
